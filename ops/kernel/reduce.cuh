// reduce.h's driver on CUDA. Cutting and order depend on the sizes alone: same input, same bits.
//
// Rows up to 1024 elements take a warp each, longer rows one block or several; columns take a thread each along the
// inner axis and several down the reduced one. Where that is too few blocks the reduced axis is split, and a second
// launch combines the partial results.
#pragma once

#include <bevel/core/cuda/runtime.h>
#include <bevel/core/tensor.h>
#include <bevel/ops/kernel/reduce.h>
#include <bevel/core/cuda/launch.cuh>

#include <algorithm>

namespace bevel {

namespace detail {

inline constexpr int reduce_threads = 256;

// Elements i, i + stride, ... of a run, four at a time in the small type.
template <class In, class Reducer>
__device__ __forceinline__ typename Reducer::Acc reduce_strided(const In* in, std::int64_t i, std::int64_t end,
                                                                std::int64_t stride, std::int64_t pitch,
                                                                std::int64_t output, const Reducer& reducer) {
  typename Reducer::Acc acc = reducer.identity();
  for (; i + 3 * stride < end; i += 4 * stride) {
    const In a = in[i * pitch];
    const In b = in[(i + stride) * pitch];
    const In c = in[(i + 2 * stride) * pitch];
    const In d = in[(i + 3 * stride) * pitch];
    const auto ab = reducer.add(reducer.small(a, output, i), reducer.small(b, output, i + stride));
    const auto cd = reducer.add(reducer.small(c, output, i + 2 * stride), reducer.small(d, output, i + 3 * stride));
    acc = reducer.combine(acc, reducer.widen(reducer.add(ab, cd)));
  }
  for (; i < end; i += stride) acc = reducer.combine(acc, reducer.lift(in[i * pitch], output, i));
  return acc;
}

// Combines `width` adjacent entries, a power of two, of shared memory into the first: entry `slot`, `slot + pitch`, ...
// Every thread of the block takes part.
template <class Reducer>
__device__ __forceinline__ void combine_shared(typename Reducer::Acc* shared, int slot, int rank, int width, int pitch,
                                               const Reducer& reducer) {
  for (int half = width / 2; half > 0; half /= 2) {
    __syncthreads();
    if (rank < half) shared[slot] = reducer.combine(shared[slot], shared[slot + half * pitch]);
  }
}

// A row or a part of it for each group of `width` threads (a power of two, at least 32).
template <class In, class Reducer, class Store>
__global__ void __launch_bounds__(reduce_threads)
    reduce_rows(const In* in, std::int64_t rows, std::int64_t length, std::int64_t splits, std::int64_t split_length,
                int width, Reducer reducer, Store store) {
  gpu::begin_kernel();
  __shared__ typename Reducer::Acc shared[reduce_threads];
  const int thread = static_cast<int>(threadIdx.x);
  const int rank = thread & (width - 1);
  const int groups = reduce_threads / width;
  const std::int64_t units = rows * splits;
  for (std::int64_t first = std::int64_t{blockIdx.x} * groups; first < units;
       first += std::int64_t{gridDim.x} * groups) {
    const std::int64_t unit = first + thread / width;
    const std::int64_t row = unit / splits;
    const std::int64_t begin = (unit % splits) * split_length;
    shared[thread] = unit < units ? reduce_strided(in + row * length, begin + rank, min(length, begin + split_length),
                                                   width, 1, row, reducer)
                                  : reducer.identity();
    combine_shared(shared, thread, rank, width, 1, reducer);
    if (rank == 0 && unit < units) store(unit, shared[thread]);
    __syncthreads();
  }
}

// `width` columns and reduce_threads / width rows at a time.
template <class In, class Reducer, class Store>
__global__ void __launch_bounds__(reduce_threads)
    reduce_columns_kernel(const In* in, ReduceStep step, std::int64_t splits, std::int64_t split_length, int width,
                          Reducer reducer, Store store) {
  gpu::begin_kernel();
  __shared__ typename Reducer::Acc shared[reduce_threads];
  const int thread = static_cast<int>(threadIdx.x);
  const int height = reduce_threads / width;
  const int x = thread & (width - 1);
  const int y = thread / width;
  const std::int64_t blocks = (step.inner + width - 1) / width;
  const std::int64_t units = step.outer * splits * blocks;
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const std::int64_t column = (unit % blocks) * width + x;
    const std::int64_t split = unit / blocks % splits;
    const std::int64_t o = unit / blocks / splits;
    const std::int64_t output = o * step.inner + column;
    const std::int64_t begin = split * split_length;
    const std::int64_t end = min(step.reduced, begin + split_length);
    shared[thread] = column < step.inner ? reduce_strided(in + o * step.reduced * step.inner + column, begin + y, end,
                                                          height, step.inner, output, reducer)
                                         : reducer.identity();
    combine_shared(shared, thread, y, height, width, reducer);
    if (y == 0 && column < step.inner) store(output * splits + split, shared[thread]);
    __syncthreads();
  }
}

inline int power_of_two_from(std::int64_t value, int least, int most) {
  int power = least;
  while (power < most && power < value) power *= 2;
  return power;
}

inline constexpr std::int64_t reduce_most_blocks = 1 << 30;

template <class In, class Reducer, class Store>
void launch_rows(Cuda backend, const In* in, const ReduceStep& step, std::int64_t splits, std::int64_t split_length,
                 const Reducer& reducer, const Store& store) {
  const int width = step.reduced <= 1024 ? 32 : reduce_threads;
  const std::int64_t groups = reduce_threads / width;
  const std::int64_t blocks = std::min((step.outer * splits + groups - 1) / groups, reduce_most_blocks);
  gpu::launch(reduce_rows<In, Reducer, Store>,
              {.blocks = static_cast<unsigned>(blocks), .threads = reduce_threads, .stream = gpu::stream(backend)},
              "reduce_rows", in, step.outer, step.reduced, splits, split_length, width, reducer, store);
}

template <class In, class Reducer, class Store>
void launch_reduce(Cuda backend, const In* in, const ReduceStep& step, std::int64_t splits, std::int64_t split_length,
                   const Reducer& reducer, const Store& store) {
  if (step.inner == 1) return launch_rows(backend, in, step, splits, split_length, reducer, store);
  const int height = power_of_two_from((step.reduced + 3) / 4, 1, 8);
  const int width = power_of_two_from(step.inner, 1, reduce_threads / height);
  const std::int64_t units = step.outer * splits * ((step.inner + width - 1) / width);
  const auto blocks = static_cast<unsigned>(std::min(units, reduce_most_blocks));
  gpu::launch(reduce_columns_kernel<In, Reducer, Store>,
              {.blocks = blocks, .threads = reduce_threads, .stream = gpu::stream(backend)}, "reduce_columns", in, step,
              splits, split_length, width, reducer, store);
}

}  // namespace detail

template <class In, class Reducer, class Store>
void reduce(Cuda backend, const In* in, const ReduceStep& step, const Reducer& reducer, const Store& store) {
  using Acc = typename Reducer::Acc;
  if (step.outputs() == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  // Enough parts for 2048 blocks, each of at least 4096 elements of a row or 64 of a column.
  const bool rows = step.inner == 1;
  const std::int64_t blocks = rows ? step.outer : step.outer * ((step.inner + 31) / 32);
  const std::int64_t least = rows ? 4096 : 64;
  const std::int64_t most_splits = std::clamp<std::int64_t>(2048 / blocks, 1, 1024);
  const std::int64_t wanted = std::clamp<std::int64_t>((step.reduced + least - 1) / least, 1, most_splits);
  const std::int64_t split_length = std::max<std::int64_t>((step.reduced + wanted - 1) / wanted, 1);
  const std::int64_t splits = std::max<std::int64_t>((step.reduced + split_length - 1) / split_length, 1);
  if (splits == 1) return detail::launch_reduce(backend, in, step, 1, split_length, reducer, store);

  const std::int64_t count = step.outputs() * splits;
  const Tensor partials =
      Tensor::empty({count * static_cast<std::int64_t>(sizeof(Acc))}, {.dtype = Dtype::u8, .device = backend.device});
  Acc* const data = static_cast<Acc*>(partials.raw());
  detail::launch_reduce(backend, in, step, splits, split_length, reducer, PlainStore<Acc>{data});
  detail::launch_rows(backend, static_cast<const Acc*>(data), {step.outputs(), splits, 1}, 1, splits,
                      CombineReducer<Reducer>{reducer}, store);
}

}  // namespace bevel
