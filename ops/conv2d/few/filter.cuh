// Gradient of the weights of 3x3 convolutions with padding 1, on the tensor cores.
//
// A matrix product with the pixels as the long sum: dw[o, tap, c] = sum over pixels p of dy[p, o] x[p at tap, c]. A
// block walks down a run of output rows. Each row of x comes into shared memory once and serves nine taps from there;
// the 32 by 9 by 32 sums of a slice stay in registers. Blocks leave partial sums, which a second kernel adds in order.
#pragma once

#include <bevel/core/cuda/launch.cuh>
#include <bevel/ops/conv2d/few/tile.cuh>

namespace bevel::detail::few {

// What a filter gradient works on. `partial`: [blocks, out_channels, 9, channels].
template <class T>
struct FilterProblem {
  const T* x;
  const T* dy;
  float* partial;
  Rows rows;
  int channels, out_channels;
};

// Left sides of the product: output gradients of 16 channels (number `tile` of the slice) for 16 (TF32: 8) pixels.
template <class T>
__device__ void load_gradients(unsigned (&a)[4], const char* y, int k0, int tile, int lane) {
  using Y = PixelLayout<T, 40>;
  if constexpr (Y::is_half) {
    const int pixel = k0 + (lane >> 4) * 8 + lane % 8;
    load_transposed(a, shared_address(y + Y::chunk(pixel, tile * 2 + (lane >> 3 & 1))));
  } else {
    const float* const p = reinterpret_cast<const float*>(y) + (k0 + lane % 4) * 40 + tile * 16 + lane / 4;
    a[0] = rounded(p[0]);
    a[1] = rounded(p[8]);
    a[2] = rounded(p[4 * 40]);
    a[3] = rounded(p[4 * 40 + 8]);
  }
}

// The sums of a warp: `m_tiles` times 16 output channels, nine taps, 16 (TF32: 8) input channels, over every
// k_parts-th group of 16 (8) pixels.
template <class T, int stride, int m_tiles>
struct FilterSums {
  static constexpr bool is_half = sizeof(T) == 2;
  static constexpr int step = is_half ? 16 : 8;  // pixels of a matrix instruction
  static constexpr int n_tiles = is_half ? 2 : 1;
  static constexpr int n_parts = is_half ? 2 : 4;
  static constexpr int m_parts = 2 / m_tiles;
  static constexpr int k_parts = threads / 32 / (n_parts * m_parts);
  using X = PixelLayout<T, stride == 1 ? 40 : 36>;
  using Y = PixelLayout<T, 40>;

  float sums[m_tiles][9][n_tiles][4] = {};
  int lane, n_part, m_part, k_part;

  __device__ FilterSums() : lane(threadIdx.x % 32) {
    const int warp = threadIdx.x / 32;
    n_part = warp % n_parts;
    m_part = warp / n_parts % m_parts;
    k_part = warp / (n_parts * m_parts);
  }

  __device__ void load_x(unsigned (&b)[4], const char* x, int k0, int kw) const {
    if constexpr (is_half) {
      const int pixel = (k0 + (lane >> 3 & 1) * 8 + lane % 8) * stride + kw;
      load_transposed(b, shared_address(x + X::chunk(pixel, n_part * 2 + (lane >> 4))));
    } else {
      constexpr int pitch = X::bytes / 4;
      const float* const p =
          reinterpret_cast<const float*>(x) + ((k0 + lane % 4) * stride + kw) * pitch + n_part * 8 + lane / 4;
      b[0] = rounded(p[0]);
      b[1] = rounded(p[4 * stride * pitch]);
    }
  }

  // Adds one group of pixels: x_rows are the three rows under the kernel, of which those marked are outside.
  __device__ void add(const char* const (&x_rows)[3], const char* y, int k0, bool top, bool bottom) {
    unsigned a[m_tiles][4];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) load_gradients<T>(a[m], y, k0, m_part * m_tiles + m, lane);
#pragma unroll
    for (int kh = 0; kh < 3; ++kh) {
      if ((kh == 0 && top) || (kh == 2 && bottom)) continue;
#pragma unroll
      for (int kw = 0; kw < 3; ++kw) {
        unsigned b[4];
        load_x(b, x_rows[kh], k0, kw);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
          for (int n = 0; n < n_tiles; ++n) multiply(T(), sums[m][kh * 3 + kw][n], a[m], b[2 * n], b[2 * n + 1]);
      }
    }
  }

  // f(o, tap, c, sum) for each, within the slice.
  template <class F>
  __device__ void each(const F& f) const {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
      for (int tap = 0; tap < 9; ++tap)
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            f((m_part * m_tiles + m) * 16 + lane / 4 + (e >> 1) * 8, tap,
              (n_part * n_tiles + n) * 8 + lane % 4 * 2 + (e & 1), sums[m][tap][n][e]);
  }
};

// How many rows a block has in shared memory: those of the stage at work and of `stages` that are on their way.
template <int stride, int stage_rows, int stages>
struct Depth {
  static constexpr int y = stage_rows * (stages + 1);
  static constexpr int x = stride * (y - 1) + 3;
};

template <class T, int stride, int m_tiles, int stage_rows, int stages>
std::size_t filter_shared_bytes(int width) {
  using Sums = FilterSums<T, stride, m_tiles>;
  using D = Depth<stride, stage_rows, stages>;
  const int rows = D::x * (stride * width + 2) * Sums::X::bytes + D::y * width * Sums::Y::bytes;
  return static_cast<std::size_t>(std::max(rows, slice * 9 * slice * static_cast<int>(sizeof(float))));
}

// Zeros for the pixels on both sides of the pictures, which no copy writes.
template <class Layout>
__device__ void clear_borders(char* x, int rows, int width) {
  constexpr int chunks = Layout::bytes / 16;
  for (int i = threadIdx.x; i < rows * 2 * chunks; i += threads) {
    const int pixel = i / chunks % 2 * (width - 1) + i / (2 * chunks) * width;
    reinterpret_cast<uint4*>(x + pixel * Layout::bytes)[i % chunks] = uint4{};
  }
}

template <class T, int stride, int m_tiles, int stage_rows, int stages, int per_multiprocessor>
__global__ void __launch_bounds__(threads, per_multiprocessor) filter_kernel(FilterProblem<T> p) {
  gpu::begin_kernel();
  using Sums = FilterSums<T, stride, m_tiles>;
  using D = Depth<stride, stage_rows, stages>;
  extern __shared__ __align__(128) char shared[];
  const int x_width = stride * p.rows.width + 2;
  const int x_bytes = x_width * Sums::X::bytes;
  const int y_bytes = p.rows.width * Sums::Y::bytes;
  char* const xs = shared;
  char* const ys = shared + D::x * x_bytes;
  clear_borders<typename Sums::X>(xs, D::x, x_width);

  const int slices = p.channels / slice;
  const T* const x = p.x + blockIdx.y % slices * slice;
  const T* const dy = p.dy + blockIdx.y / slices * slice;
  const int begin = blockIdx.x * p.rows.rows_per_block;
  const int end = min(p.rows.count, begin + p.rows.rows_per_block);
  const auto load_x = [&](int row) {
    if (row < 0 || row >= stride * p.rows.count) return;
    Sums::X::load_row(xs + (row + 1) % D::x * x_bytes,
                      x + static_cast<std::int64_t>(row) * stride * p.rows.width * p.channels, stride * p.rows.width,
                      p.channels, 1);
  };
  const auto load_stage = [&](int first) {
    for (int q = first; q < min(end, first + stage_rows); ++q) {
      for (int i = 0; i < stride; ++i) load_x(stride * q + 2 - stride + i);
      Sums::Y::load_row(ys + q % D::y * y_bytes, dy + static_cast<std::int64_t>(q) * p.rows.width * p.out_channels,
                        p.rows.width, p.out_channels, 0);
    }
    commit_copies();
  };
  if (begin < end) {
    load_x(stride * begin - 1);
    if (stride == 1) load_x(begin);
  }
#pragma unroll
  for (int i = 0; i < stages; ++i) load_stage(begin + i * stage_rows);

  Sums sums;
  for (int first = begin; first < end; first += stage_rows) {
    wait_copies<stages - 1>();
    __syncthreads();
    load_stage(first + stages * stage_rows);
    const int x_slot = stride * first % D::x;  // of the row above the first
    const int y_slot = first % D::y;
    const int h0 = first % p.rows.height;
#pragma unroll 1
    for (int row = 0; row < min(stage_rows, end - first); ++row) {
      const char* x_rows[3];
#pragma unroll
      for (int kh = 0; kh < 3; ++kh) {
        const int slot = x_slot + stride * row + kh;
        x_rows[kh] = xs + (slot >= D::x ? slot - D::x : slot) * x_bytes;
      }
      const char* const y = ys + (y_slot + row >= D::y ? y_slot + row - D::y : y_slot + row) * y_bytes;
      const int h = h0 + row >= p.rows.height ? h0 + row - p.rows.height : h0 + row;
      const bool bottom = stride == 1 && h == p.rows.height - 1;
      for (int k0 = sums.k_part * Sums::step; k0 < p.rows.width; k0 += Sums::k_parts * Sums::step)
        sums.add(x_rows, y, k0, h == 0, bottom);
    }
  }
  wait_copies<0>();

  // The parts of the sum over pixels, added in order.
  float* const total = reinterpret_cast<float*>(shared);
  for (int part = 0; part < Sums::k_parts; ++part) {
    __syncthreads();
    if (sums.k_part == part)
      sums.each([&](int o, int tap, int c, float value) {
        float& at = total[(o * 9 + tap) * slice + c];
        at = part == 0 ? value : at + value;
      });
  }
  __syncthreads();
  const std::int64_t weights = static_cast<std::int64_t>(p.out_channels) * 9 * p.channels;
  const int o0 = blockIdx.y / slices * slice;
  const int c0 = blockIdx.y % slices * slice;
  for (int i = threadIdx.x; i < slice * 9 * slice; i += threads)
    p.partial[blockIdx.x * weights + (o0 * 9 + i / slice) * static_cast<std::int64_t>(p.channels) + c0 + i % slice] =
        total[i];
}

// result[i] = the sum of `parts` partial sums, in order within eight runs, then over the runs.
template <class R>
__global__ void __launch_bounds__(threads) sum_partials_kernel(const float* partial, R* result, int count, int parts) {
  gpu::begin_kernel();
  __shared__ float runs[8][33];
  const int lane = threadIdx.x % 32;
  const int run = threadIdx.x / 32;
  const int element = blockIdx.x * 32 + lane;
  const int length = (parts + 7) / 8;
  float sum = 0;
  if (element < count)
#pragma unroll 8
    for (int i = run * length; i < min(parts, (run + 1) * length); ++i)
      sum += partial[static_cast<std::int64_t>(i) * count + element];
  runs[run][lane] = sum;
  __syncthreads();
  if (run != 0 || element >= count) return;
  for (int i = 1; i < 8; ++i) sum += runs[i][lane];
  result[element] = static_cast<R>(sum);
}

}  // namespace bevel::detail::few
