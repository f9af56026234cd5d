// Sums over the pixels of a map, for each sample and channel, on CUDA: the reductions and the walks over x that the
// two-pass kernels share.
//
// NHWC: a block takes `lanes` packs of adjacent channels and one of `splits` runs of pixels of one sample; 256 / lanes
// rows of threads stride over the pixels. NCHW: `threads` threads (4 to 32, or 256) take one run of one map. A thread
// has `K` channels: those of its packs in NHWC, one in NCHW.
#pragma once

#include <bevel/core/cuda/check.h>
#include <bevel/ops/evonorm/detail/formula.h>
#include <bevel/ops/evonorm/detail/problem.h>
#include <bevel/ops/kernel/pack.h>
#include <bevel/ops/evonorm/detail/async.cuh>
#include <bevel/ops/evonorm/detail/held.cuh>

#include <algorithm>

namespace bevel::evo {

inline constexpr int block_threads = 256;

// How the two-pass kernels cut a problem up. Depends on its sizes alone, so that results do, too.
struct Tiling {
  std::int64_t samples, pixels, channels;
  bool nhwc;
  int lanes;                  // NHWC: packs of channels a block; power of two, at most 32
  int threads;                // NCHW: threads a run
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
           .threads = p.pixels > 16384 ? 256 : 4,
           .splits = 1,
           .split_pixels = p.pixels};
  while (t.lanes < 32 && t.lanes < p.channels / pack) t.lanes *= 2;
  while (t.threads < 32 && t.threads * 8 < p.pixels / pack) t.threads *= 2;
  // About 2048 blocks, of at least 16 pixels a thread in NHWC and 4096 a block in NCHW.
  const std::int64_t runs = p.samples * t.tiles(pack);
  const std::int64_t wanted = t.nhwc ? 2048 / runs : (t.threads == 256 ? 1024 / runs : 1);
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
  std::int64_t first_channel;         // NHWC: of the block
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
    at.first_channel = tile * t.lanes * P;
    at.channel = at.first_channel + thread % t.lanes * P;
    at.active = at.channel < t.channels;
    row = thread / t.lanes;
    rows = block_threads / t.lanes;
    at.start = (at.sample * t.pixels + begin) * t.channels + at.channel;
    at.first = at.start + row * t.channels;
    at.stride = rows * t.channels;
    at.count = static_cast<int>((pixels - row + rows - 1) / rows);
  } else {
    at.channel = at.first_channel = tile;
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

__device__ inline float quotient(float a, float b) {
  return __fdividef(a, b);
}
__device__ inline double quotient(double a, double b) {
  return a / b;
}

// {count, mean, rest of the mean, sum of squared deviations}. The mean is the sum of two parts, so that nothing is lost
// to an offset common to all x; merging keeps the first part of `to`.
struct Moments {
  template <class A>
  __device__ static void merge(A (&to)[4], const A (&from)[4]) {
    const bool empty = to[0] == 0;
    const A count = to[0] + from[0];
    const A share = from[0] > 0 ? quotient(from[0], count) : A(0);
    const A delta = (from[1] - to[1]) + (from[2] - to[2]);
    const A rest = to[2] + delta * share;
    const A squares = to[3] + (from[3] + delta * delta * (to[0] * share));
    to[0] = count;
    if (empty) to[1] = from[1];
    to[2] = empty ? from[2] : rest;
    to[3] = empty ? from[3] : squares;
  }
};

// Merges over `lanes` adjacent threads, a power of two up to 32; the first has the result.
template <class Merge, class A, int K>
__device__ void warp_merge(A (&value)[K], int lanes = 32) {
  for (int step = lanes / 2; step > 0; step /= 2) {
    A other[K];
#pragma unroll
    for (int k = 0; k < K; ++k) other[k] = __shfl_down_sync(~0u, value[k], static_cast<unsigned>(step));
    Merge::merge(value, other);
  }
}

// The block's shared memory: first the slots of its threads, then what they merge.
inline constexpr int block_memory = 48 * 1024;

// Merges N values for each of K channels over the threads of a place, in a fixed order, and calls result(k, values) for
// those of each channel in one thread. In NHWC that thread stands for another one's place: `lane` is its pack's.
template <class Merge, int K, int N, class A, class Result>
__device__ void merge_place(const Tiling& t, char* memory, A (&value)[K][N], const Result& result) {
  A* const shared = reinterpret_cast<A*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // nobody needs its slots any more
  if (K > 1 || t.nhwc) {
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int n = 0; n < N; ++n) shared[(k * N + n) * block_threads + thread] = value[k][n];
    __syncthreads();
    for (int j = thread; j < K * t.lanes; j += block_threads) {
      const int k = j / t.lanes, lane = j % t.lanes;
      A total[N] = {};
      for (int i = lane; i < block_threads; i += t.lanes) {
        A other[N];
#pragma unroll
        for (int n = 0; n < N; ++n) other[n] = shared[(k * N + n) * block_threads + i];
        Merge::merge(total, other);
      }
      result(lane, k, total);
    }
    return;
  }
  warp_merge<Merge>(value[0], t.threads < 32 ? t.threads : 32);
  if (t.threads <= 32) {
    if (thread % t.threads == 0) result(0, 0, value[0]);
    return;
  }
  if (thread % 32 == 0)
    for (int n = 0; n < N; ++n) shared[n * block_threads + thread / 32] = value[0][n];
  __syncthreads();
  if (thread != 0) return;
  for (int w = 1; w < block_threads / 32; ++w) {
    A other[N];
    for (int n = 0; n < N; ++n) other[n] = shared[n * block_threads + w];
    Merge::merge(value[0], other);
  }
  result(0, 0, value[0]);
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
    held.store_streaming(to);
  }
}

// Goes over a thread's packs of one or two arrays while later ones are on their way: `batch` packs of each at a time,
// `depth` batches in shared memory. consume(slots, n) finds pack r < n of array a at slots + (r * arrays + a) * pitch.
template <class T, int P, int arrays>
struct Stream {
  static constexpr int batch = 4 / arrays, depth = 3;
  static constexpr int bytes = P * static_cast<int>(sizeof(T)) < 4 ? 4 : P * static_cast<int>(sizeof(T));
  static constexpr int pitch = block_threads * bytes, stage_bytes = batch * arrays * pitch;
  static_assert(depth * stage_bytes <= block_memory);

  const T* from[arrays];
  std::int64_t stride;
  int ahead;  // packs not yet asked for
  char* own;

  __device__ void fetch(int stage) {
    char* to = own + stage * stage_bytes;
#pragma unroll
    for (int r = 0; r < batch; ++r)
      if (r < ahead)
#pragma unroll
        for (int a = 0; a < arrays; ++a) {
          char* const slot = to + (r * arrays + a) * pitch;
          if constexpr (P * sizeof(T) >= 4)
            copy_async<P* static_cast<int>(sizeof(T))>(shared_address(slot), from[a]);
          else
            *reinterpret_cast<T*>(slot) = *from[a];
          from[a] += stride;
        }
    ahead -= batch;
    close_copies();
  }

  // Asks for the first batches; run() follows.
  __device__ void start(int count) {
    ahead = count;
#pragma unroll
    for (int d = 0; d < depth - 1; ++d) fetch(d);
  }

  template <class Consume>
  __device__ void run(int count, const Consume& consume) {
    int stage = 0, next = depth - 1;
    for (int rest = count; rest > 0; rest -= batch) {
      fetch(next);
      wait_copies<depth - 1>();
      consume(own + stage * stage_bytes, rest < batch ? rest : batch);
      stage = stage == depth - 1 ? 0 : stage + 1;
      next = next == depth - 1 ? 0 : next + 1;
    }
  }
};

// Coefficients of K channels, from a table of rows of channels: row k of sample n begins at (k * samples + n) *
// channels, or at k * channels where the table is shared by all samples. Without a table they are 1.
template <class Formula, int K, class A>
__device__ inline void load_coefficients(const A* table, bool shared, const Tiling& t, const Place& at,
                                         Formula (&formula)[K]) {
  static_assert(sizeof(Formula) == sizeof(A) * Formula::coefficients, "a formula's members are its coefficients");
#pragma unroll
  for (int p = 0; p < K; ++p) {
    A* members = reinterpret_cast<A*>(&formula[p]);
#pragma unroll
    for (int k = 0; k < Formula::coefficients; ++k)
      members[k] =
          table == nullptr ? A(1) : table[(shared ? k : k * t.samples + at.sample) * t.channels + at.channel + p];
  }
}

// Where a result of merge_place goes: sample, run and channel of a table of [samples, splits, channels].
template <int P>
__device__ inline std::int64_t result_place(const Tiling& t, const Place& at, int lane, int k) {
  const std::int64_t channel = t.nhwc ? at.first_channel + lane * P + k : at.channel;
  return (at.sample * t.splits + at.run) * t.channels + channel;
}
template <int P>
__device__ inline bool result_exists(const Tiling& t, const Place& at, int lane) {
  return t.nhwc ? at.first_channel + lane * P < t.channels : at.sample < t.samples;
}

// partial[k][sample][run][channel] = sum over the run of term k.
template <class Formula, int P, int K, class T>
__global__ void __launch_bounds__(block_threads, 3)
    reduce_kernel(Tiling t, const T* __restrict__ x, const T* __restrict__ dy, const compute_t<T>* __restrict__ table,
                  bool shared, compute_t<T>* __restrict__ partial) {
  using A = compute_t<T>;
  constexpr int N = Formula::sums;
  __shared__ __align__(16) char memory[block_memory];
  gpu::begin_kernel();
  const Place at = place<P>(t);
  A sum[K][N] = {};
  if (at.active) {
    using Packs = Stream<T, P, 2>;
    Packs packs{{x + at.first, dy + at.first}, at.stride, 0, memory + threadIdx.x * Packs::bytes};
    packs.start(at.count);
    Formula formula[K];
    load_coefficients(table, shared, t, at, formula);
    packs.run(at.count, [&](const char* slots, int n) {
#pragma unroll
      for (int r = 0; r < Packs::batch; ++r, slots += 2 * Packs::pitch) {
        if (r >= n) break;
        A from[P], upstream[P];
        load<P>(reinterpret_cast<const T*>(slots), from);
        load<P>(reinterpret_cast<const T*>(slots + Packs::pitch), upstream);
#pragma unroll
        for (int p = 0; p < P; ++p) formula[K > 1 ? p : 0].add(from[p], upstream[p], sum[K > 1 ? p : 0]);
      }
    });
  }
  merge_place<Add>(t, memory, sum, [&](int lane, int k, const A(&total)[N]) {
    if (!result_exists<P>(t, at, lane)) return;
    A* to = partial + result_place<P>(t, at, lane, k);
#pragma unroll
    for (int n = 0; n < N; ++n) to[n * t.samples * t.splits * t.channels] = total[n];
  });
}

// moments[0 and 1][sample][run][channel] = mean and sum of squared deviations over the run.
//
// A thread sums differences from the mean of its first packs, and their squares. That mean lies among the x: where it
// belongs to a share f of the elements it is off by at most sqrt((1 - f) / f) of their deviations, so that no more than
// log2(1 / f) bits are lost when the squares are shifted to the true mean. After 64 batches it takes a new one.
template <int P, int K, class T>
__global__ void __launch_bounds__(block_threads, 4)
    moments_kernel(Tiling t, const T* __restrict__ x, double* __restrict__ moments) {
  using A = compute_t<T>;
  using Packs = Stream<T, P, 1>;
  constexpr int most = 64 * Packs::batch;
  __shared__ __align__(16) char memory[block_memory];
  gpu::begin_kernel();
  const Place at = place<P>(t);
  A value[K][4] = {};
  if (at.active) {
    Packs packs{{x + at.first}, at.stride, 0, memory + threadIdx.x * Packs::bytes};
    packs.start(at.count);
    A about[K] = {}, sum[K] = {}, squares[K] = {};
    int seen = 0;  // packs since `about` was taken
    const auto fold = [&] {
      const A count = A(seen * (K > 1 ? 1 : P));
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const A rest = quotient(sum[k], count);
        const A part[4] = {count, about[k], rest, squares[k] - rest * sum[k]};
        Moments::merge(value[k], part);
        sum[k] = squares[k] = 0;
      }
      seen = 0;
    };
    packs.run(at.count, [&](const char* slots, int n) {
      if (seen == 0) {
#pragma unroll
        for (int k = 0; k < K; ++k) about[k] = 0;
#pragma unroll
        for (int r = 0; r < Packs::batch; ++r) {
          if (r >= n) break;
          A from[P];
          load<P>(reinterpret_cast<const T*>(slots + r * Packs::pitch), from);
#pragma unroll
          for (int p = 0; p < P; ++p) about[K > 1 ? p : 0] += from[p];
        }
#pragma unroll
        for (int k = 0; k < K; ++k) about[k] *= quotient(A(1), A(n * (K > 1 ? 1 : P)));
      }
#pragma unroll
      for (int r = 0; r < Packs::batch; ++r) {
        if (r >= n) break;
        A from[P];
        load<P>(reinterpret_cast<const T*>(slots + r * Packs::pitch), from);
#pragma unroll
        for (int p = 0; p < P; ++p) {
          const int k = K > 1 ? p : 0;
          const A difference = from[p] - about[k];
          sum[k] += difference;
          squares[k] += difference * difference;
        }
      }
      seen += n;
      if (seen >= most) fold();
    });
    if (seen > 0) fold();
  }
  merge_place<Moments>(t, memory, value, [&](int lane, int k, const A(&total)[4]) {
    if (!result_exists<P>(t, at, lane)) return;
    double* to = moments + result_place<P>(t, at, lane, k);
    to[0] = static_cast<double>(total[1]) + static_cast<double>(total[2]);
    to[t.samples * t.splits * t.channels] = static_cast<double>(total[3]);
  });
}

template <class Formula, int P, int K, class T>
__global__ void __launch_bounds__(block_threads, 3)
    forward_kernel(Tiling t, const T* __restrict__ x, T* __restrict__ y, const compute_t<T>* __restrict__ table,
                   bool shared) {
  __shared__ __align__(16) char memory[block_memory];
  gpu::begin_kernel();
  const Place at = place<P>(t, true);
  if (!at.active) return;
  using Packs = Stream<T, P, 1>;
  Packs packs{{x + at.first}, at.stride, 0, memory + threadIdx.x * Packs::bytes};
  packs.start(at.count);
  Formula formula[K];
  load_coefficients(table, shared, t, at, formula);
  y += at.first;
  packs.run(at.count, [&](const char* slots, int n) {
#pragma unroll
    for (int r = 0; r < Packs::batch; ++r, slots += Packs::pitch, y += at.stride) {
      if (r >= n) break;
      compute_t<T> value[P];
      load<P>(reinterpret_cast<const T*>(slots), value);
#pragma unroll
      for (int p = 0; p < P; ++p) value[p] = formula[K > 1 ? p : 0](value[p]);
      store<P>(y, value);
    }
  });
}

template <class Formula, int P, int K, class T>
__global__ void __launch_bounds__(block_threads, 3)
    backward_kernel(Tiling t, const T* __restrict__ x, const T* __restrict__ dy, T* __restrict__ dx,
                    const compute_t<T>* __restrict__ table, bool shared) {
  __shared__ __align__(16) char memory[block_memory];
  gpu::begin_kernel();
  const Place at = place<P>(t, true);
  if (!at.active) return;
  using Packs = Stream<T, P, 2>;
  Packs packs{{x + at.first, dy + at.first}, at.stride, 0, memory + threadIdx.x * Packs::bytes};
  packs.start(at.count);
  Formula formula[K];
  load_coefficients(table, shared, t, at, formula);
  dx += at.first;
  packs.run(at.count, [&](const char* slots, int n) {
#pragma unroll
    for (int r = 0; r < Packs::batch; ++r, slots += 2 * Packs::pitch, dx += at.stride) {
      if (r >= n) break;
      compute_t<T> value[P], upstream[P];
      load<P>(reinterpret_cast<const T*>(slots), value);
      load<P>(reinterpret_cast<const T*>(slots + Packs::pitch), upstream);
#pragma unroll
      for (int p = 0; p < P; ++p) value[p] = formula[K > 1 ? p : 0](value[p], upstream[p]);
      store<P>(dx, value);
    }
  });
}

}  // namespace bevel::evo
