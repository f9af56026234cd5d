// Sums over the pixels of a map, for each sample and channel, on CUDA: the reductions and the walks over x that the
// two-pass kernels share.
//
// NHWC: a block takes `lanes` packs of adjacent channels and one of `splits` runs of pixels of one sample; 256 / lanes
// rows of threads stride over the pixels. NCHW: `threads` threads (32 or 256) take one run of one map.
#pragma once

#include <bevel/core/cuda/check.h>
#include <bevel/ops/evonorm/detail/formula.h>
#include <bevel/ops/evonorm/detail/problem.h>
#include <bevel/ops/kernel/pack.h>
#include <bevel/ops/evonorm/detail/held.cuh>

#include <algorithm>

namespace bevel::evo {

inline constexpr int block_threads = 256;

// How the two-pass kernels cut a problem up. Depends on its sizes alone, so that results do, too.
struct Tiling {
  std::int64_t samples, pixels, channels;
  bool nhwc;
  int lanes;                  // NHWC: packs of channels a block; power of two, at most 32
  int threads;                // NCHW: threads a run, 32 or 256
  int splits;                 // runs of pixels a map is cut into
  std::int64_t split_pixels;  // in each but the last

  BEVEL_HD std::int64_t tiles(int pack) const {
    return nhwc ? (channels / pack + lanes - 1) / lanes : channels;  // in the axis of channels
  }
  unsigned blocks(int pack) const {
    const std::int64_t runs = samples * tiles(pack) * splits;
    return static_cast<unsigned>(nhwc ? runs : (runs * threads + block_threads - 1) / block_threads);
  }
};

inline Tiling tiling(const Problem& p, int pack) {
  Tiling t{.samples = p.samples,
           .pixels = p.pixels,
           .channels = p.channels,
           .nhwc = p.layout == Layout::nhwc,
           .lanes = 1,
           .threads = p.pixels > 16384 ? 256 : 32,
           .splits = 1,
           .split_pixels = p.pixels};
  while (t.lanes < 32 && t.lanes < p.channels / pack) t.lanes *= 2;
  // About 1024 blocks, of at least 16 pixels a thread in NHWC and 4096 a block in NCHW.
  const std::int64_t runs = p.samples * t.tiles(pack);
  const std::int64_t wanted = t.nhwc ? 1024 / runs : (t.threads == 256 ? 1024 / runs : 1);
  const std::int64_t least = t.nhwc ? 16 * (block_threads / t.lanes) : 4096;
  const std::int64_t splits = std::clamp<std::int64_t>(std::min(wanted, p.pixels / least), 1, 256);
  t.split_pixels = (p.pixels + splits - 1) / splits;
  t.split_pixels = (t.split_pixels + 15) / 16 * 16;  // runs of an aligned map begin aligned
  t.splits = static_cast<int>((p.pixels + t.split_pixels - 1) / t.split_pixels);
  return t;
}

// Where a thread works. NHWC: pixels first, first + step ... < last of `pack` channels from `channel`. NCHW: the same
// of one channel, in packs of neighbouring pixels.
struct Place {
  std::int64_t sample, channel, run;
  std::int64_t start, first, stride;  // offsets in x: of the run, of the thread's first pack, between its packs
  int count;                          // of its packs
  bool active;
};

// `reverse`: the blocks begin at the end, where the pass before has just been and the second-level cache has x.
template <int P>
__device__ inline Place place(const Tiling& t, bool reverse = false) {
  Place at;
  const std::int64_t block = reverse ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t index = t.nhwc ? block : (block * block_threads + thread) / t.threads;
  const std::int64_t tiles = t.tiles(P);
  const std::int64_t tile = index / t.splits % tiles;
  at.sample = index / t.splits / tiles;
  at.run = index % t.splits;
  const std::int64_t begin = at.run * t.split_pixels;
  const std::int64_t pixels = begin + t.split_pixels < t.pixels ? t.split_pixels : t.pixels - begin;
  std::int64_t row, rows;
  if (t.nhwc) {
    at.channel = (tile * t.lanes + thread % t.lanes) * P;
    at.active = at.channel < t.channels;
    row = thread / t.lanes;
    rows = block_threads / t.lanes;
    at.start = (at.sample * t.pixels + begin) * t.channels + at.channel;
    at.first = at.start + row * t.channels;
    at.stride = rows * t.channels;
    at.count = static_cast<int>((pixels - row + rows - 1) / rows);
  } else {
    at.channel = tile;
    at.active = at.sample < t.samples;
    row = thread % t.threads;
    rows = t.threads;
    at.start = (at.sample * t.channels + at.channel) * t.pixels + begin;
    at.first = at.start + row * P;
    at.stride = rows * P;
    at.count = static_cast<int>((pixels / P - row + rows - 1) / rows);
  }
  if (!at.active || at.count < 0) at.count = 0;
  return at;
}

// --- merging ---

struct Add {
  template <class A, int K>
  __device__ static void merge(A (&to)[K], const A (&from)[K]) {
#pragma unroll
    for (int k = 0; k < K; ++k) to[k] += from[k];
  }
};

// {count, mean, sum of squared deviations}, by Chan's formula.
struct Chan {
  template <class A>
  __device__ static void merge(A (&to)[3], const A (&from)[3]) {
    const A count = to[0] + from[0];
    const A share = count > 0 ? from[0] / count : A(0);
    const A delta = from[1] - to[1];
    to[1] += delta * share;
    to[2] += from[2] + delta * delta * (to[0] * share);
    to[0] = count;
  }
};

// Merges over the 32 lanes of a warp; lane 0 has the result.
template <class Merge, class A, int K>
__device__ void warp_merge(A (&value)[K]) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    A other[K];
#pragma unroll
    for (int k = 0; k < K; ++k) other[k] = __shfl_down_sync(~0u, value[k], step);
    Merge::merge(value, other);
  }
}

// Merges the threads' values of one place: in NHWC over the rows of threads, for each of P channels, leaving them with
// the first row; in NCHW over the threads of the run, leaving value[0] with its first thread.
template <class Merge, int P, class A, int K>
__device__ void merge_place(const Tiling& t, A (&value)[P][K]) {
  if (t.nhwc) {
    __shared__ A shared[K * P][block_threads / 2];
    for (int step = block_threads / 2; step >= t.lanes; step /= 2) {
      const int thread = static_cast<int>(threadIdx.x);
      if (thread >= step && thread < 2 * step) {
#pragma unroll
        for (int p = 0; p < P; ++p)
#pragma unroll
          for (int k = 0; k < K; ++k) shared[p * K + k][thread - step] = value[p][k];
      }
      __syncthreads();
      if (thread < step) {
#pragma unroll
        for (int p = 0; p < P; ++p) {
          A other[K];
#pragma unroll
          for (int k = 0; k < K; ++k) other[k] = shared[p * K + k][thread];
          Merge::merge(value[p], other);
        }
      }
      __syncthreads();
    }
    return;
  }
#pragma unroll
  for (int p = 1; p < P; ++p) Merge::merge(value[0], value[p]);
  warp_merge<Merge>(value[0]);
  if (t.threads == 32) return;
  __shared__ A warps[block_threads / 32][K];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0)
    for (int k = 0; k < K; ++k) warps[warp][k] = value[0][k];
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < block_threads / 32; ++w) Merge::merge(value[0], warps[w]);
}

// Whether this thread holds results of merge_place.
__device__ inline bool leads(const Tiling& t, const Place& at) {
  const int thread = static_cast<int>(threadIdx.x);
  return at.active && (t.nhwc ? thread < t.lanes : thread % t.threads == 0);
}

// --- kernels ---

template <int P, class T>
__device__ inline void load(const T* from, compute_t<T> (&to)[P]) {
  if constexpr (sizeof(T) == 8) {
    const auto pack = *reinterpret_cast<const kernel::Pack<T, P>*>(from);
#pragma unroll
    for (int p = 0; p < P; ++p) to[p] = pack.lane[p];
  } else {
    Held<T, P> held;
    held.load(from);
#pragma unroll
    for (int p = 0; p < P; ++p) to[p] = held[p];
  }
}

template <int P, class T>
__device__ inline void store(T* to, const compute_t<T> (&from)[P]) {
  if constexpr (sizeof(T) == 8) {
    kernel::Pack<T, P> pack;
#pragma unroll
    for (int p = 0; p < P; ++p) pack.lane[p] = from[p];
    *reinterpret_cast<kernel::Pack<T, P>*>(to) = pack;
  } else {
    Held<T, P> held;
    held.set(from);
    held.store(to);
  }
}

// Coefficients of P lanes, from a table of rows of channels: row k of sample n begins at (k * samples + n) * channels,
// or at k * channels where the table is shared by all samples. Without a table they are 1.
template <class Formula, int P, class A>
__device__ inline void load_coefficients(const A* table, bool shared, const Tiling& t, const Place& at,
                                         Formula (&formula)[P]) {
  static_assert(sizeof(Formula) == sizeof(A) * Formula::coefficients, "a formula's members are its coefficients");
#pragma unroll
  for (int p = 0; p < P; ++p) {
    A* members = reinterpret_cast<A*>(&formula[p]);
    const std::int64_t channel = at.channel + (t.nhwc ? p : 0);
#pragma unroll
    for (int k = 0; k < Formula::coefficients; ++k)
      members[k] = table == nullptr ? A(1) : table[(shared ? k : k * t.samples + at.sample) * t.channels + channel];
  }
}

// partial[k][sample][run][channel] = sum over the run of term k.
template <class Formula, int P, class T>
__global__ void __launch_bounds__(block_threads, P > 4 ? 2 : 3)
    reduce_kernel(Tiling t, const T* __restrict__ x, const T* __restrict__ dy, const compute_t<T>* __restrict__ table,
                  bool shared, compute_t<T>* __restrict__ partial) {
  using A = compute_t<T>;
  constexpr int K = Formula::sums;
  const Place at = place<P>(t);
  A sum[P][K] = {};
  if (at.active) {
    Formula formula[P];
    load_coefficients(table, shared, t, at, formula);
    x += at.first;
    dy += at.first;
#pragma unroll(P > 4 ? 2 : 4)
    for (int i = 0; i < at.count; ++i, x += at.stride, dy += at.stride) {
      A from[P], upstream[P];
      load<P>(x, from);
      load<P>(dy, upstream);
#pragma unroll
      for (int p = 0; p < P; ++p) {
        A term[K];
        formula[p](from[p], upstream[p], term);
        Add::merge(sum[p], term);
      }
    }
  }
  merge_place<Add>(t, sum);
  if (!leads(t, at)) return;
#pragma unroll
  for (int k = 0; k < K; ++k)
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (t.nhwc || p == 0)
        partial[((k * t.samples + at.sample) * t.splits + at.run) * t.channels + at.channel + p] = sum[p][k];
}

// moments[0 and 1][sample][run][channel] = mean and sum of squared deviations over the run.
//
// Computed from x - pivot with a pivot that lies among the x, so that nothing is lost to a common offset; each thread
// takes the moments of four values at a time about their own mean and merges them.
template <int P, class T>
__global__ void __launch_bounds__(block_threads)
    moments_kernel(Tiling t, const T* __restrict__ x, double* __restrict__ moments) {
  using A = compute_t<T>;
  constexpr int rows = 4;
  const Place at = place<P>(t);
  A pivot[P] = {}, value[P][3] = {};
  if (at.active) {
#pragma unroll
    for (int p = 0; p < P; ++p) pivot[p] = kernel::load(x[at.start + (t.nhwc ? p : 0)]);
    const T* from = x + at.first;
    int i = 0;
    for (; i + rows <= at.count; i += rows, from += rows * at.stride) {
      A part[rows][P];
#pragma unroll
      for (int r = 0; r < rows; ++r) load<P>(from + r * at.stride, part[r]);
      const A count = A(i), share = A(rows) / (count + A(rows));
#pragma unroll
      for (int p = 0; p < P; ++p) {
        A sum = 0, squares = 0;
#pragma unroll
        for (int r = 0; r < rows; ++r) {
          part[r][p] -= pivot[p];
          sum += part[r][p];
        }
        const A mean = sum * (A(1) / A(rows));
#pragma unroll
        for (int r = 0; r < rows; ++r) squares += (part[r][p] - mean) * (part[r][p] - mean);
        const A delta = mean - value[p][1];
        value[p][1] += delta * share;
        value[p][2] += squares + delta * delta * (count * share);
      }
    }
    for (; i < at.count; ++i, from += at.stride) {
      A part[P];
      load<P>(from, part);
      const A count = A(i), share = A(1) / (count + A(1));
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const A delta = part[p] - pivot[p] - value[p][1];
        value[p][1] += delta * share;
        value[p][2] += delta * delta * (count * share);
      }
    }
#pragma unroll
    for (int p = 0; p < P; ++p) value[p][0] = A(at.count);
  }
  merge_place<Chan>(t, value);
  if (!leads(t, at)) return;
#pragma unroll
  for (int p = 0; p < P; ++p)
    if (t.nhwc || p == 0) {
      const std::int64_t i = (at.sample * t.splits + at.run) * t.channels + at.channel + p;
      moments[i] = static_cast<double>(pivot[p]) + static_cast<double>(value[p][1]);
      moments[t.samples * t.splits * t.channels + i] = static_cast<double>(value[p][2]);
    }
}

template <class Formula, int P, class T>
__global__ void __launch_bounds__(block_threads)
    forward_kernel(Tiling t, const T* __restrict__ x, T* __restrict__ y, const compute_t<T>* __restrict__ table) {
  const Place at = place<P>(t, true);
  if (!at.active) return;
  Formula formula[P];
  load_coefficients(table, false, t, at, formula);
  x += at.first;
  y += at.first;
#pragma unroll(P > 4 ? 2 : 4)
  for (int i = 0; i < at.count; ++i, x += at.stride, y += at.stride) {
    compute_t<T> value[P];
    load<P>(x, value);
#pragma unroll
    for (int p = 0; p < P; ++p) value[p] = formula[p](value[p]);
    store<P>(y, value);
  }
}

template <class Formula, int P, class T>
__global__ void __launch_bounds__(block_threads)
    backward_kernel(Tiling t, const T* __restrict__ x, const T* __restrict__ dy, T* __restrict__ dx,
                    const compute_t<T>* __restrict__ table) {
  const Place at = place<P>(t, true);
  if (!at.active) return;
  Formula formula[P];
  load_coefficients(table, false, t, at, formula);
  x += at.first;
  dy += at.first;
  dx += at.first;
#pragma unroll(P > 4 ? 2 : 4)
  for (int i = 0; i < at.count; ++i, x += at.stride, dy += at.stride, dx += at.stride) {
    compute_t<T> value[P], upstream[P];
    load<P>(x, value);
    load<P>(dy, upstream);
#pragma unroll
    for (int p = 0; p < P; ++p) value[p] = formula[p](value[p], upstream[p]);
    store<P>(dx, value);
  }
}

}  // namespace bevel::evo
