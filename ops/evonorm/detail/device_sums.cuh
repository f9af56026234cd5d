// The two-pass kernels' walks over pictures: moments of every map, sums for the gradients, and the passes that apply
// coefficients.
#pragma once

#include <bevel/core/cuda/check.h>
#include <bevel/ops/evonorm/detail/formula.h>
#include <bevel/core/cuda/launch.cuh>
#include <bevel/ops/evonorm/detail/stream.cuh>

namespace bevel::evo {

// partial[k][sample][run][channel] = sum over the run of term k.
template <class Formula, int P, int K, class T>
__global__ void __launch_bounds__(block_threads, 3)
    reduce_kernel(Tiling t, const T* __restrict__ x, const T* __restrict__ dy, const compute_t<T>* __restrict__ table,
                  bool shared, compute_t<T>* __restrict__ partial) {
  using A = compute_t<T>;
  constexpr int N = Formula::sums;
  __shared__ __align__(16) char memory[block_memory];
  const Place at = place<P>(t);
  gpu::begin_kernel();
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
  const Place at = place<P>(t);
  gpu::begin_kernel();
  A value[K][4] = {};
  if (at.active) {
    Packs packs{{x + at.first}, at.stride, 0, memory + threadIdx.x * Packs::bytes};
    packs.start(at.count);
    A about[K] = {}, sum[K] = {}, squares[K] = {};
    int seen = 0;  // packs since `about` was taken
    bool first = true;
    const auto fold = [&] {
      const A count = A(seen * (K > 1 ? 1 : P)), share = quotient(A(1), count);
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const A rest = sum[k] * share;
        const A part[4] = {count, about[k], rest, squares[k] - rest * sum[k]};
        if (first)
          for (int n = 0; n < 4; ++n) value[k][n] = part[n];
        else
          Moments::merge(value[k], part);
        sum[k] = squares[k] = 0;
      }
      first = false;
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
  const Place at = place<P>(t, true);
  gpu::begin_kernel();
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
  const Place at = place<P>(t, true);
  gpu::begin_kernel();
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
