#include <bevel/core/cuda/runtime.h>
#include <bevel/nn/detail/clip_kernels.h>

namespace bevel::nn::detail {

namespace {

using bevel::detail::Chunk;
using bevel::detail::chunk_of_block;
using bevel::detail::chunk_threads;
using bevel::detail::ChunkTable;

// The sum over the block, valid in thread 0; the order of additions is fixed.
__device__ double block_sum(double value) {
  __shared__ double values[chunk_threads];
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = chunk_threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  return values[0];
}

template <class T>
__global__ void __launch_bounds__(chunk_threads) square_sums_kernel(const ChunkTable<Array<T>> table, double* sums) {
  const Chunk chunk = chunk_of_block(table);
  const T* data = table.arrays[chunk.array].data;
  double sum = 0;
  for (std::int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += chunk_threads) {
    const double value = static_cast<double>(data[i]);
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(chunk_threads)
    norm_and_scale_kernel(const double* sums, std::int64_t count, double max_norm, double* norm, double* scale) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += chunk_threads) sum += sums[i];
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  *norm = sqrt(sum);
  const double factor = max_norm / (*norm + 1e-6);
  *scale = factor < 1 || isnan(factor) ? factor : 1;
}

template <class T>
struct Scale {
  const double* scale;
  __device__ bool idle() const { return *scale == 1; }
  __device__ T operator()(T value) const { return value * static_cast<T>(*scale); }
};

template <class T>
struct Clamp {
  T limit;
  __device__ bool idle() const { return false; }
  __device__ T operator()(T value) const { return value > limit ? limit : value < -limit ? -limit : value; }
};

template <class T, class F>
__global__ void __launch_bounds__(chunk_threads) change_kernel(const ChunkTable<Array<T>> table, const F f) {
  if (f.idle()) return;
  const Chunk chunk = chunk_of_block(table);
  T* data = table.arrays[chunk.array].data;
  for (std::int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += chunk_threads) data[i] = f(data[i]);
}

template <class T, class F>
void change(Cuda backend, std::span<const Array<T>> arrays, const F& f) {
  const gpu::DeviceGuard guard(backend.device);
  bevel::detail::for_each_table(arrays, [&](const ChunkTable<Array<T>>& table, std::int64_t blocks) {
    change_kernel<<<static_cast<unsigned>(blocks), chunk_threads, 0, gpu::stream(backend)>>>(table, f);
    gpu::check(cudaGetLastError(), "change_kernel");
  });
}

}  // namespace

template <class T>
void square_sums(Cuda backend, std::span<const Array<T>> arrays, double* sums) {
  const gpu::DeviceGuard guard(backend.device);
  bevel::detail::for_each_table(arrays, [&](const ChunkTable<Array<T>>& table, std::int64_t blocks) {
    square_sums_kernel<<<static_cast<unsigned>(blocks), chunk_threads, 0, gpu::stream(backend)>>>(table, sums);
    gpu::check(cudaGetLastError(), "square_sums_kernel");
    sums += blocks;
  });
}

void norm_and_scale(Cuda backend, const double* sums, std::int64_t count, double max_norm, double* norm,
                    double* scale) {
  const gpu::DeviceGuard guard(backend.device);
  norm_and_scale_kernel<<<1, chunk_threads, 0, gpu::stream(backend)>>>(sums, count, max_norm, norm, scale);
  gpu::check(cudaGetLastError(), "norm_and_scale_kernel");
}

template <class T>
void scale_arrays(Cuda backend, std::span<const Array<T>> arrays, const double* scale) {
  change(backend, arrays, Scale<T>{scale});
}

template <class T>
void clamp_arrays(Cuda backend, std::span<const Array<T>> arrays, T limit) {
  change(backend, arrays, Clamp<T>{limit});
}

template void square_sums(Cuda, std::span<const Array<float>>, double*);
template void square_sums(Cuda, std::span<const Array<double>>, double*);
template void scale_arrays(Cuda, std::span<const Array<float>>, const double*);
template void scale_arrays(Cuda, std::span<const Array<double>>, const double*);
template void clamp_arrays(Cuda, std::span<const Array<float>>, float);
template void clamp_arrays(Cuda, std::span<const Array<double>>, double);

}  // namespace bevel::nn::detail
