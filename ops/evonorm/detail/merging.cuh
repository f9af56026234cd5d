// Sums and moments, merged over the threads of a block in a fixed order.
#pragma once

#include <bevel/ops/evonorm/detail/tiling.cuh>

namespace bevel::evo {

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
    // `parts` adjacent threads share out the rows of a channel.
    constexpr int channel_shift = K == 1 ? 0 : K == 2 ? 1 : 2;
    static_assert(K == 1 << channel_shift);
    const int channels = K << t.lane_shift, part_shift = min(block_shift - channel_shift - t.lane_shift, 5);
    for (int j = thread; j < channels << part_shift; j += block_threads) {
      const int channel = j >> part_shift, part = j & ((1 << part_shift) - 1);
      const int k = channel >> t.lane_shift, lane = channel & (t.lanes() - 1);
      const int step = 1 << (part_shift + t.lane_shift);
      A total[N];
      int i = lane + (part << t.lane_shift);
#pragma unroll
      for (int n = 0; n < N; ++n) total[n] = shared[(k * N + n) * block_threads + i];
      for (i += step; i < block_threads; i += step) {
        A other[N];
#pragma unroll
        for (int n = 0; n < N; ++n) other[n] = shared[(k * N + n) * block_threads + i];
        Merge::merge(total, other);
      }
      warp_merge<Merge>(total, 1 << part_shift);
      if (part == 0) result(lane, k, total);
    }
    return;
  }
  warp_merge<Merge>(value[0], min(t.threads(), 32));
  if (t.threads() <= 32) {
    if ((thread & (t.threads() - 1)) == 0) result(0, 0, value[0]);
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

}  // namespace bevel::evo
