// 3x3 convolutions from 32 to 32 channels with stride 1 and padding 1, forward or as the gradient of their input, on
// the tensor cores: the weights stay in shared memory, each row of x comes there once and serves nine taps.
#pragma once

#include <bevel/core/cuda/launch.cuh>
#include <bevel/ops/conv2d/few/filter.cuh>

namespace bevel::detail::few {

// Pixels of a warp's tile, in units of 16.
inline constexpr int forward_m_tiles = 2;

template <class T, int stage_rows, int stages>
std::size_t forward_shared_bytes(int width) {
  using X = PixelLayout<T, 36>;
  return static_cast<std::size_t>((9 * slice + Depth<1, stage_rows, stages>::x * (width + 2)) * X::bytes);
}

// The weights as the right sides of the products: for each tap 32 "pixels" (columns) of 32 values (rows). Columns are
// permuted as in store_channels. The gradient of the input is a convolution with the taps turned round and the two
// sides of the weights exchanged.
template <class T, bool is_gradient>
__device__ void load_weights(char* to, const T* weight) {
  using X = PixelLayout<T, 36>;
  for (int i = threadIdx.x; i < 9 * slice * slice; i += threads) {
    const int c = i % slice;
    const int tap = i / slice % 9;
    const int o = i / (9 * slice);
    const int from = is_gradient ? o : c;
    const int channel = is_gradient ? c : o;
    const int n = channel % 8 / 2 * 8 + channel / 8 * 2 + channel % 2;
    const int place = is_gradient ? 8 - tap : tap;
    char* const pixel = to + X::chunk(place * slice + n, from * static_cast<int>(sizeof(T)) / 16);
    T value = weight[i];
    if constexpr (sizeof(T) == 4) value = __uint_as_float(rounded(value));
    reinterpret_cast<T*>(pixel)[from % (16 / static_cast<int>(sizeof(T)))] = value;
  }
}

// Adds the products of one tap: 32 channels of the pixels from `pixel` of a row on, times the tap's weights.
template <class T>
__device__ void add_tap(float (&c)[forward_m_tiles][4][4], const char* x_row, int pixel, const char* weights, int tap,
                        int lane) {
  using X = PixelLayout<T, 36>;
  constexpr int m_tiles = forward_m_tiles;
  if constexpr (X::is_half) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      unsigned a[m_tiles][4];
      unsigned b[2][4];
#pragma unroll
      for (int m = 0; m < m_tiles; ++m)
        load_matrices(a[m], shared_address(x_row + X::chunk(pixel + m * 16 + lane % 16, k * 2 + lane / 16)));
#pragma unroll
      for (int n = 0; n < 2; ++n)
        load_matrices(b[n], shared_address(weights + X::chunk(tap + n * 16 + (lane >> 4) * 8 + lane % 8,
                                                              k * 2 + (lane >> 3 & 1))));
#pragma unroll
      for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply(T(), c[m][j], a[m], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  } else {
    const int g = lane / 4;
    const int t = lane % 4;
    const float* const xf = reinterpret_cast<const float*>(x_row) + (pixel + g) * 36 + t;
    const unsigned* const wf = reinterpret_cast<const unsigned*>(weights) + (tap + g) * 36 + t;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      unsigned a[m_tiles][4];
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
        const float* const p = xf + m * 16 * 36 + k * 8;
        a[m][0] = rounded(p[0]);
        a[m][1] = rounded(p[8 * 36]);
        a[m][2] = rounded(p[4]);
        a[m][3] = rounded(p[8 * 36 + 4]);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const unsigned* const w = wf + j * 8 * 36 + k * 8;
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) multiply(T(), c[m][j], a[m], w[0], w[4]);
      }
    }
  }
}

template <class T, bool is_gradient, int stage_rows, int stages>
__global__ void __launch_bounds__(threads, 2)
    forward_kernel(const T* x, const T* weight, const T* bias, T* y, Rows rows) {
  gpu::begin_kernel();
  constexpr int m_tiles = forward_m_tiles;
  using X = PixelLayout<T, 36>;
  using D = Depth<1, stage_rows, stages>;
  extern __shared__ __align__(128) char shared[];
  const int x_bytes = (rows.width + 2) * X::bytes;
  char* const ws = shared;
  char* const xs = shared + 9 * slice * X::bytes;
  clear_borders<X>(xs, D::x, rows.width + 2);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int begin = blockIdx.x * rows.rows_per_block;
  const int end = min(rows.count, begin + rows.rows_per_block);
  const auto load_x = [&](int row) {
    if (row >= 0 && row < rows.count)
      X::load_row(xs + (row + 1) % D::x * x_bytes, x + static_cast<std::int64_t>(row) * rows.width * slice, rows.width,
                  slice, 1);
  };
  const auto load_stage = [&](int first) {
    for (int q = first; q < min(end, first + stage_rows); ++q) load_x(q + 1);
    commit_copies();
  };
  if (begin < end) {
    load_x(begin - 1);
    load_x(begin);
  }
#pragma unroll
  for (int i = 0; i < stages; ++i) load_stage(begin + i * stage_rows);
  load_weights<T, is_gradient>(ws, weight);

  const int tiles = rows.width / (16 * m_tiles);
  for (int first = begin; first < end; first += stage_rows) {
    wait_copies<stages - 1>();
    __syncthreads();
    load_stage(first + stages * stage_rows);
    const int slot0 = first % D::x;
    const int h0 = first % rows.height;
    const int count = min(stage_rows, end - first) * tiles;
    for (int tile = warp; tile < count; tile += threads / 32) {
      const int row = tile / tiles;
      const int pixel = tile % tiles * 16 * m_tiles;
      const int h = (h0 + row) % rows.height;
      float c[m_tiles][4][4];
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) start_sums(c[m], is_gradient ? nullptr : bias, t * 8);
#pragma unroll
      for (int kh = 0; kh < 3; ++kh) {
        if ((kh == 0 && h == 0) || (kh == 2 && h == rows.height - 1)) continue;
        const int slot = slot0 + row + kh;
        const char* const x_row = xs + (slot >= D::x ? slot - D::x : slot) * x_bytes;
#pragma unroll
        for (int kw = 0; kw < 3; ++kw) add_tap<T>(c, x_row, pixel + kw, ws, (kh * 3 + kw) * slice, lane);
      }
#pragma unroll
      for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          store_channels(
              y + (static_cast<std::int64_t>(first + row) * rows.width + pixel + m * 16 + half * 8 + g) * slice + t * 8,
              c[m], half);
    }
  }
  wait_copies<0>();
}

}  // namespace bevel::detail::few
