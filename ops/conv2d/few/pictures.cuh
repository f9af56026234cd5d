// Convolutions of pictures with 3 channels to 32, kernel 3x3, stride 2, padding 1: forward and gradient of the weights.
//
// The 27 products under an output pixel are one short side of a matrix product; its operands are gathered from rows of
// the picture in shared memory, where the nine values under a row of the kernel lie side by side. Pictures are of type
// S, which is that of the other operands, T, or float where T is a half type: they are then rounded as they are
// gathered.
#pragma once

#include <bevel/core/cuda/launch.cuh>
#include <bevel/ops/conv2d/few/filter.cuh>

namespace bevel::detail::few {

inline constexpr int window = 27;  // 3 rows of the kernel times 9 values

// A row of a picture in shared memory: 16 bytes of zeros on both sides.
template <class T>
struct PictureRow {
  static constexpr int pad = 16 / static_cast<int>(sizeof(T));

  static __host__ __device__ int bytes(int width) { return width * 3 * static_cast<int>(sizeof(T)) + 32; }
  static __device__ void load(char* to, const T* from, int width) {
    const int chunks = width * 3 * static_cast<int>(sizeof(T)) / 16;
    for (int i = threadIdx.x; i < chunks; i += threads) copy_async(to + 16 + i * 16, from + i * pad);
  }
  // Where value `k` of a window lies: in row k / 9 of the kernel, at this distance from the window's place in the row.
  // Beyond the window: a place that may be read.
  static __device__ int offset(int k) { return k < window ? k % 9 - 3 + pad : pad; }
  static __device__ int kernel_row(int k) { return k < window ? k / 9 : 2; }
};

// The ring of picture rows: slot of row r is (r + 1) % count, r >= -1.
template <class T, int count>
struct PictureRing {
  char* rows;
  int width, bytes;

  __device__ PictureRing(char* shared, int picture_width)
      : rows(shared), width(picture_width), bytes(PictureRow<T>::bytes(picture_width)) {
    for (int i = threadIdx.x; i < count * bytes / 16; i += threads) reinterpret_cast<uint4*>(rows)[i] = uint4{};
    __syncthreads();
  }
  __device__ void load(const T* x, int row) const {
    if (row >= 0)
      PictureRow<T>::load(rows + (row + 1) % count * bytes, x + static_cast<std::int64_t>(row) * width * 3, width);
  }
  __device__ const T* at(int first_slot, int row) const {
    const int slot = first_slot + row;
    return reinterpret_cast<const T*>(rows + (slot >= count ? slot - count : slot) * bytes);
  }
};

// Two values of a picture in one register, the first in the low half, as elements of the half type T.
template <class T>
__device__ inline unsigned pair_rounded(const T* low, const T* high) {
  return pair_of(low, high);
}
template <class T>
__device__ inline unsigned pair_rounded(const float* low, const float* high) {
  return rounded_pair(T(), *low, *high);
}

// The part of a thread in the operands made of windows and of their weights: lane / 4 = g, lane % 4 = t.
template <class T, class S>
struct WindowOperands {
  static constexpr bool is_half = sizeof(T) == 2;
  static constexpr int step = is_half ? 16 : 8;  // values of a matrix instruction
  static constexpr int steps = 32 / step;
  using Row = PictureRow<S>;

  int g, t;

  // The value of a window that is number i of the thread's, i < 8.
  __device__ int value_of(int i) const {
    return is_half ? i / 4 * 16 + i / 2 % 2 * 8 + 2 * t + i % 2 : i / 2 * 8 + i % 2 * 4 + t;
  }

  // Right sides, the weights. Columns of the product are permuted so that a thread holds eight adjacent channels of a
  // pixel: column n of tile j is channel n / 2 * 8 + 2 j + n % 2.
  __device__ void load_weights(unsigned (&b)[steps][4][2], const T* weight) const {
#pragma unroll
    for (int k = 0; k < steps; ++k)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const T* const from = weight + (g / 2 * 8 + 2 * j + g % 2) * window;
          const auto at = [&](int i) { return value_of(i) < window ? from[value_of(i)] : T(0.0F); };
          if constexpr (is_half) {
            const T low = at(k * 4 + part * 2);
            const T high = at(k * 4 + part * 2 + 1);
            b[k][j][part] = pair_of(&low, &high);
          } else {
            b[k][j][part] = rounded(at(k * 2 + part));
          }
        }
  }

  // Left side number k: the windows of 16 pixels, of which this thread holds `pixel` and the eighth after it.
  __device__ void load_windows(unsigned (&a)[4], int k, const S* const (&x_rows)[3], int pixel, bool top) const {
    const auto at = [&](int i, int m) {
      const int value = value_of(i);
      const int kh = Row::kernel_row(value);
      const S* const from = kh == 0 ? x_rows[0] : kh == 1 ? x_rows[1] : x_rows[2];
      const S element = from[(pixel + m * 8) * 6 + Row::offset(value)];
      return value >= window || (top && kh == 0) ? S(0.0F) : element;
    };
#pragma unroll
    for (int part = 0; part < 2; ++part)
#pragma unroll
      for (int m = 0; m < 2; ++m)
        if constexpr (is_half) {
          const S low = at(k * 4 + part * 2, m);
          const S high = at(k * 4 + part * 2 + 1, m);
          a[part * 2 + m] = pair_rounded<T>(&low, &high);
        } else {
          a[part * 2 + m] = rounded(at(k * 2 + part, m));
        }
  }
};

template <class S, int stage_rows, int stages>
std::size_t picture_forward_bytes(int width) {
  return static_cast<std::size_t>(Depth<2, stage_rows, stages>::x * PictureRow<S>::bytes(2 * width));
}

// y[p, o] = sum over k of window(p)[k] weight[o, k].
template <class T, class S, int stage_rows, int stages>
__global__ void __launch_bounds__(threads, 2)
    picture_forward_kernel(const S* x, const T* weight, const T* bias, T* y, Rows rows) {
  gpu::begin_kernel();
  using Operands = WindowOperands<T, S>;
  using D = Depth<2, stage_rows, stages>;
  extern __shared__ __align__(128) char shared[];
  const PictureRing<S, D::x> ring(shared, 2 * rows.width);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const Operands operands{lane / 4, lane % 4};
  const int begin = blockIdx.x * rows.rows_per_block;
  const int end = min(rows.count, begin + rows.rows_per_block);
  const auto load_stage = [&](int first) {
    for (int q = first; q < min(end, first + stage_rows); ++q) {
      ring.load(x, 2 * q);
      ring.load(x, 2 * q + 1);
    }
    commit_copies();
  };
  if (begin < end) ring.load(x, 2 * begin - 1);
#pragma unroll
  for (int i = 0; i < stages; ++i) load_stage(begin + i * stage_rows);
  unsigned b[Operands::steps][4][2];
  operands.load_weights(b, weight);

  const int tiles = rows.width / 16;
  for (int first = begin; first < end; first += stage_rows) {
    wait_copies<stages - 1>();
    __syncthreads();
    load_stage(first + stages * stage_rows);
    const int slot = 2 * first % D::x;
    const int h0 = first % rows.height;
    const int count = min(stage_rows, end - first) * tiles;
    for (int tile = warp; tile < count; tile += threads / 32) {
      const int row = tile / tiles;
      const int pixel = tile % tiles * 16 + operands.g;
      const bool top = (h0 + row) % rows.height == 0;
      const S* const x_rows[3] = {ring.at(slot, 2 * row), ring.at(slot, 2 * row + 1), ring.at(slot, 2 * row + 2)};
      float c[4][4];
      start_sums(c, bias, operands.t * 8);
#pragma unroll
      for (int k = 0; k < Operands::steps; ++k) {
        unsigned a[4];
        operands.load_windows(a, k, x_rows, pixel, top);
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply(T(), c[j], a, b[k][j][0], b[k][j][1]);
      }
      T* const to = y + (static_cast<std::int64_t>(first + row) * rows.width + pixel) * slice + operands.t * 8;
#pragma unroll
      for (int m = 0; m < 2; ++m) store_channels(to + m * 8 * slice, c, m);
    }
  }
  wait_copies<0>();
}

template <class T, class S, int stage_rows, int stages>
std::size_t picture_filter_bytes(int width) {
  using D = Depth<2, stage_rows, stages>;
  const int rows = D::y * width * PixelLayout<T, 40>::bytes + D::x * PictureRow<S>::bytes(2 * width);
  return static_cast<std::size_t>(std::max(rows, slice * window * static_cast<int>(sizeof(float))));
}

// The sums of a warp over its share of the pixels: 32 channels by 27 values, in tiles of 16 by 8.
template <class T, class S>
struct PictureSums {
  static constexpr bool is_half = sizeof(T) == 2;
  static constexpr int step = is_half ? 16 : 8;  // pixels of a matrix instruction
  using Row = PictureRow<S>;

  float sums[2][4][4] = {};
  int lane;

  __device__ explicit PictureSums(int lane_number) : lane(lane_number) {}

  // Adds the pixels from k0 on. row_at(kh): the picture's row under row kh of the kernel.
  template <class RowAt>
  __device__ void add(const char* y, const RowAt& row_at, int k0, bool top) {
    const int t = lane % 4;
    unsigned a[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) load_gradients<T>(a[m], y, k0, m, lane);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int k = j * 8 + lane / 4;
      const int kh = Row::kernel_row(k);
      const bool is_zero = k >= window || (top && kh == 0);
      const S* const from = row_at(kh) + Row::offset(k);
      unsigned b[2];
#pragma unroll
      for (int part = 0; part < 2; ++part)
        if constexpr (is_half) {
          const S* const p = from + (k0 + part * 8 + 2 * t) * 6;
          b[part] = is_zero ? 0 : pair_rounded<T>(p, p + 6);
        } else {
          b[part] = is_zero ? 0 : rounded(from[(k0 + part * 4 + t) * 6]);
        }
#pragma unroll
      for (int m = 0; m < 2; ++m) multiply(T(), sums[m][j], a[m], b[0], b[1]);
    }
  }

  // Into, or onto what is in, [32, 27] sums in shared memory.
  __device__ void add_to(float* total, bool is_first) const {
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int k = j * 8 + lane % 4 * 2 + (e & 1);
          if (k >= window) continue;
          float& at = total[(m * 16 + lane / 4 + (e >> 1) * 8) * window + k];
          at = is_first ? sums[m][j][e] : at + sums[m][j][e];
        }
  }
};

// dw[o, k] = sum over pixels p of dy[p, o] window(p)[k], in partial sums [blocks, 32, 27].
template <class T, class S, int stage_rows, int stages>
__global__ void __launch_bounds__(threads, 2)
    picture_filter_kernel(const S* x, const T* dy, float* partial, Rows rows) {
  gpu::begin_kernel();
  using Sums = PictureSums<T, S>;
  using D = Depth<2, stage_rows, stages>;
  using Y = PixelLayout<T, 40>;
  extern __shared__ __align__(128) char shared[];
  const int y_bytes = rows.width * Y::bytes;
  char* const ys = shared;
  const PictureRing<S, D::x> ring(shared + D::y * y_bytes, 2 * rows.width);
  const int warp = threadIdx.x / 32;
  const int begin = blockIdx.x * rows.rows_per_block;
  const int end = min(rows.count, begin + rows.rows_per_block);
  const auto load_stage = [&](int first) {
    for (int q = first; q < min(end, first + stage_rows); ++q) {
      ring.load(x, 2 * q);
      ring.load(x, 2 * q + 1);
      Y::load_row(ys + q % D::y * y_bytes, dy + static_cast<std::int64_t>(q) * rows.width * slice, rows.width, slice,
                  0);
    }
    commit_copies();
  };
  if (begin < end) ring.load(x, 2 * begin - 1);
#pragma unroll
  for (int i = 0; i < stages; ++i) load_stage(begin + i * stage_rows);

  Sums sums(threadIdx.x % 32);
  const int groups = rows.width / Sums::step;
  for (int first = begin; first < end; first += stage_rows) {
    wait_copies<stages - 1>();
    __syncthreads();
    load_stage(first + stages * stage_rows);
    const int x_slot = 2 * first % D::x;
    const int y_slot = first % D::y;
    const int h0 = first % rows.height;
    const int count = min(stage_rows, end - first) * groups;
    for (int i = warp; i < count; i += threads / 32) {
      const int row = i / groups;
      const int y_row = y_slot + row >= D::y ? y_slot + row - D::y : y_slot + row;
      const bool top = (h0 + row) % rows.height == 0;
      sums.add(
          ys + y_row * y_bytes, [&](int kh) { return ring.at(x_slot, 2 * row + kh); }, i % groups * Sums::step, top);
    }
  }
  wait_copies<0>();

  // The warps' sums, added in order.
  float* const total = reinterpret_cast<float*>(shared);
  for (int part = 0; part < threads / 32; ++part) {
    __syncthreads();
    if (warp == part) sums.add_to(total, part == 0);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < slice * window; i += threads)
    partial[static_cast<std::int64_t>(blockIdx.x) * (slice * window) + i] = total[i];
}

}  // namespace bevel::detail::few
