// Sums over the pixels of a map, for each sample and channel, on CUDA: the reductions and the walks over x that the
// two-pass kernels share.
//
// NHWC: a block takes `lanes` packs of adjacent channels and one of `splits` runs of pixels of one sample; 256 / lanes
// rows of threads stride over the pixels. NCHW: `threads` threads (32 or 256) take one run of one map.
#pragma once

#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/evonorm/detail/formula.h>
#include <bevel/ops/evonorm/detail/problem.h>
#include <bevel/ops/kernel/pack.h>

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
           .threads = p.pixels > 1024 ? 256 : 32,
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
  std::int64_t sample, channel, run, first, last, step;
  bool active;
};

template <int P>
__device__ inline Place place(const Tiling& t) {
  Place at;
  std::int64_t index;
  if (t.nhwc) {
    index = blockIdx.x;
  } else {
    index = (std::int64_t{blockIdx.x} * block_threads + threadIdx.x) / t.threads;
  }
  const std::int64_t split = index % t.splits;
  const std::int64_t tiles = t.tiles(P);
  const std::int64_t tile = index / t.splits % tiles;
  at.sample = index / t.splits / tiles;
  at.run = split;
  const std::int64_t begin = split * t.split_pixels;
  at.last = begin + t.split_pixels < t.pixels ? begin + t.split_pixels : t.pixels;
  if (t.nhwc) {
    const int lane = static_cast<int>(threadIdx.x) % t.lanes;
    at.channel = (tile * t.lanes + lane) * P;
    at.first = begin + static_cast<int>(threadIdx.x) / t.lanes;
    at.step = block_threads / t.lanes;
    at.active = at.channel < t.channels;
  } else {
    at.channel = tile;
    at.first = begin + static_cast<int>(threadIdx.x) % t.threads * P;
    at.step = t.threads * P;
    at.active = at.sample < t.samples;
  }
  if (!at.active) at.first = at.last = 0;
  return at;
}

__device__ inline std::int64_t offset_of(const Tiling& t, const Place& at, std::int64_t pixel) {
  return t.nhwc ? (at.sample * t.pixels + pixel) * t.channels + at.channel
                : (at.sample * t.channels + at.channel) * t.pixels + pixel;
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
    __shared__ A shared[K * P][block_threads];
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
  const auto pack = *reinterpret_cast<const kernel::Pack<T, P>*>(from);
#pragma unroll
  for (int p = 0; p < P; ++p) to[p] = kernel::load(pack.lane[p]);
}

template <int P, class T>
__device__ inline void store(T* to, const compute_t<T> (&from)[P]) {
  kernel::Pack<T, P> pack;
#pragma unroll
  for (int p = 0; p < P; ++p) pack.lane[p] = kernel::store<T>(from[p]);
  *reinterpret_cast<kernel::Pack<T, P>*>(to) = pack;
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
__global__ void __launch_bounds__(block_threads)
    reduce_kernel(Tiling t, const T* x, const T* dy, const compute_t<T>* table, bool shared, compute_t<T>* partial) {
  using A = compute_t<T>;
  constexpr int K = Formula::sums;
  const Place at = place<P>(t);
  A sum[P][K] = {};
  if (at.active) {
    Formula formula[P];
    load_coefficients(table, shared, t, at, formula);
#pragma unroll 2
    for (std::int64_t pixel = at.first; pixel < at.last; pixel += at.step) {
      A from[P], upstream[P];
      load<P>(x + offset_of(t, at, pixel), from);
      load<P>(dy + offset_of(t, at, pixel), upstream);
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
__global__ void __launch_bounds__(block_threads) moments_kernel(Tiling t, const T* x, double* moments) {
  using A = compute_t<T>;
  constexpr int rows = 4;
  const Place at = place<P>(t);
  A pivot[P] = {}, value[P][3] = {};
  if (at.active) {
    const std::int64_t begin = at.run * t.split_pixels;
#pragma unroll
    for (int p = 0; p < P; ++p) pivot[p] = kernel::load(x[offset_of(t, at, begin) + (t.nhwc ? p : 0)]);
    std::int64_t pixel = at.first;
    A count = 0;
    for (; pixel + (rows - 1) * at.step < at.last; pixel += rows * at.step) {
      A from[rows][P];
#pragma unroll
      for (int r = 0; r < rows; ++r) load<P>(x + offset_of(t, at, pixel + r * at.step), from[r]);
      const A share = A(rows) / (count + A(rows));
#pragma unroll
      for (int p = 0; p < P; ++p) {
        A sum = 0, squares = 0;
#pragma unroll
        for (int r = 0; r < rows; ++r) {
          from[r][p] -= pivot[p];
          sum += from[r][p];
        }
        const A mean = sum / A(rows);
#pragma unroll
        for (int r = 0; r < rows; ++r) squares += (from[r][p] - mean) * (from[r][p] - mean);
        const A delta = mean - value[p][1];
        value[p][1] += delta * share;
        value[p][2] += squares + delta * delta * (count * share);
      }
      count += A(rows);
    }
    for (; pixel < at.last; pixel += at.step) {
      A from[P];
      load<P>(x + offset_of(t, at, pixel), from);
      const A share = A(1) / (count + A(1));
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const A delta = from[p] - pivot[p] - value[p][1];
        value[p][1] += delta * share;
        value[p][2] += delta * delta * (count * share);
      }
      count += A(1);
    }
#pragma unroll
    for (int p = 0; p < P; ++p) value[p][0] = count;
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
__global__ void __launch_bounds__(block_threads) forward_kernel(Tiling t, const T* x, T* y, const compute_t<T>* table) {
  const Place at = place<P>(t);
  if (!at.active) return;
  Formula formula[P];
  load_coefficients(table, false, t, at, formula);
#pragma unroll 2
  for (std::int64_t pixel = at.first; pixel < at.last; pixel += at.step) {
    compute_t<T> value[P];
    load<P>(x + offset_of(t, at, pixel), value);
#pragma unroll
    for (int p = 0; p < P; ++p) value[p] = formula[p](value[p]);
    store<P>(y + offset_of(t, at, pixel), value);
  }
}

template <class Formula, int P, class T>
__global__ void __launch_bounds__(block_threads)
    backward_kernel(Tiling t, const T* x, const T* dy, T* dx, const compute_t<T>* table) {
  const Place at = place<P>(t);
  if (!at.active) return;
  Formula formula[P];
  load_coefficients(table, false, t, at, formula);
#pragma unroll 2
  for (std::int64_t pixel = at.first; pixel < at.last; pixel += at.step) {
    compute_t<T> value[P], upstream[P];
    load<P>(x + offset_of(t, at, pixel), value);
    load<P>(dy + offset_of(t, at, pixel), upstream);
#pragma unroll
    for (int p = 0; p < P; ++p) value[p] = formula[p](value[p], upstream[p]);
    store<P>(dx + offset_of(t, at, pixel), value);
  }
}

}  // namespace bevel::evo
