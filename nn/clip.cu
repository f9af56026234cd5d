#include <bevel/core/cuda/runtime.h>
#include <bevel/nn/detail/clip_kernels.h>
#include <bevel/core/cuda/launch.cuh>

#include <algorithm>

namespace bevel::nn::detail {

namespace {

using bevel::detail::Chunk;
using bevel::detail::chunk_threads;
using bevel::detail::ChunkTable;
using bevel::detail::find_chunk;
using bevel::detail::TableMemory;

using Table = ChunkTable<Gradient>;

// The sum over the block, valid in thread 0; the order of additions is fixed.
__device__ double block_sum(double value) {
  __shared__ double values[chunk_threads / 32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
  __syncthreads();  // an earlier sum has been read
  if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0)
    for (const double part : values) sum += part;
  return sum;
}

template <class T>
__device__ double square_sum(const void* data, const Chunk& chunk) {
  const T* const values = static_cast<const T*>(data);
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += chunk_threads) {
    const double value = static_cast<double>(values[i]);
    sum += value * value;
  }
  return sum;
}

__global__ void __launch_bounds__(chunk_threads)
    gradient_norm_kernel(const __grid_constant__ Table table, const NormRequest request, double* sums) {
  gpu::begin_kernel();
  for (std::int64_t i = blockIdx.x; i < table.chunks; i += gridDim.x) {
    const Chunk chunk = find_chunk(table, i);
    const Gradient& gradient = bevel::detail::arrays_of(table)[chunk.array];
    const double sum =
        block_sum(gradient.is_f64 ? square_sum<double>(gradient.data, chunk) : square_sum<float>(gradient.data, chunk));
    if (threadIdx.x == 0) sums[i] = sum;
  }
  if (!bevel::detail::last_block(request.arrived)) return;
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < table.chunks; i += chunk_threads) sum += sums[i];
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  const double factor = request.factor.value();
  *request.norm = factor * sqrt(sum);
  *request.scale = clip_scale(*request.norm, request.max_norm, factor);
}

struct Scale {
  const double* scale;
  __device__ bool idle() const { return *scale == 1; }
  template <class T>
  __device__ T operator()(T value) const {
    return value * static_cast<T>(*scale);
  }
};

struct Clamp {
  double limit;
  __device__ bool idle() const { return false; }
  template <class T>
  __device__ T operator()(T value) const {
    const T most = static_cast<T>(limit);
    return value > most ? most : value < -most ? -most : value;
  }
};

template <class T, class F>
__device__ void change_chunk(void* data, const Chunk& chunk, const F& f) {
  T* const values = static_cast<T*>(data);
  for (std::int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += chunk_threads) values[i] = f(values[i]);
}

template <class F>
__global__ void __launch_bounds__(chunk_threads) change_kernel(const __grid_constant__ Table table, const F f) {
  gpu::begin_kernel();
  if (f.idle()) return;
  for (std::int64_t i = blockIdx.x; i < table.chunks; i += gridDim.x) {
    const Chunk chunk = find_chunk(table, i);
    const Gradient& gradient = bevel::detail::arrays_of(table)[chunk.array];
    if (gradient.is_f64)
      change_chunk<double>(gradient.data, chunk, f);
    else
      change_chunk<float>(gradient.data, chunk, f);
  }
}

gpu::LaunchShape shape_for(Cuda backend, const Table& table) {
  const std::int64_t most = std::int64_t{8} * gpu::multiprocessors(backend.device);
  return {.blocks = static_cast<unsigned>(std::clamp<std::int64_t>(table.chunks, 1, most)),
          .threads = chunk_threads,
          .stream = gpu::stream(backend)};
}

template <class F>
void change(Cuda backend, std::span<const Gradient> gradients, const F& f, TableMemory& memory) {
  const gpu::DeviceGuard guard(backend.device);
  const Table table = bevel::detail::make_table(gradients, memory, backend.device);
  if (table.count > 0) gpu::launch(change_kernel<F>, shape_for(backend, table), "change_kernel", table, f);
}

}  // namespace

void gradient_norm(Cuda backend, std::span<const Gradient> gradients, const NormRequest& request, TableMemory& memory) {
  const gpu::DeviceGuard guard(backend.device);
  const Table table = bevel::detail::make_table(gradients, memory, backend.device);
  const Tensor sums = Tensor::empty({table.chunks}, {.dtype = f64, .device = backend.device});
  double* const partial = table.chunks > 0 ? sums.data<double>() : nullptr;
  gpu::launch(gradient_norm_kernel, shape_for(backend, table), "gradient_norm_kernel", table, request, partial);
}

void scale_gradients(Cuda backend, std::span<const Gradient> gradients, const double* scale, TableMemory& memory) {
  change(backend, gradients, Scale{scale}, memory);
}

void clamp_gradients(Cuda backend, std::span<const Gradient> gradients, double limit, TableMemory& memory) {
  change(backend, gradients, Clamp{limit}, memory);
}

}  // namespace bevel::nn::detail
