#include <bevel/core/cuda/runtime.h>
#include <bevel/core/hostdevice.h>
#include <bevel/nn/detail/scaler_kernels.h>
#include <bevel/core/cuda/launch.cuh>

#include <algorithm>

namespace bevel::nn::detail {

namespace {

constexpr int threads = 256;
constexpr int most_tensors = 64;  // in one launch
constexpr std::int64_t block_elements = 4096;

struct Gradients {
  const void* data[most_tensors];
  std::int64_t count[most_tensors];
  bool is_f64[most_tensors];
};

template <class T>
__device__ bool all_finite(const void* data, std::int64_t count) {
  const T* const values = static_cast<const T*>(data);
  bool finite = true;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; i < count; i += step)
    finite &= isfinite(values[i]);
  return finite;
}

__global__ void __launch_bounds__(threads) find_not_finite_kernel(Gradients gradients, std::int64_t* found) {
  gpu::begin_kernel();
  const void* const data = gradients.data[blockIdx.y];
  const std::int64_t count = gradients.count[blockIdx.y];
  const bool finite = gradients.is_f64[blockIdx.y] ? all_finite<double>(data, count) : all_finite<float>(data, count);
  if (!finite) *found = 1;  // whoever writes, writes the same
}

__global__ void update_scale_kernel(ScalerRule rule, float* scale, float* factor, std::int64_t* counts) {
  gpu::begin_kernel();
  apply_rule(rule, *scale, *factor, counts);
}

}  // namespace

void find_not_finite(Cuda backend, std::span<const Tensor> gradients, const Tensor& counts) {
  const gpu::DeviceGuard guard(backend.device);
  for (std::size_t first = 0; first < gradients.size(); first += most_tensors) {
    const std::size_t number = std::min<std::size_t>(most_tensors, gradients.size() - first);
    Gradients table{};
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < number; ++i) {
      const Tensor& gradient = gradients[first + i];
      table.data[i] = gradient.raw();
      table.count[i] = gradient.numel();
      table.is_f64[i] = gradient.dtype() == f64;
      largest = std::max(largest, gradient.numel());
    }
    const auto blocks =
        static_cast<unsigned>(std::clamp<std::int64_t>((largest + block_elements - 1) / block_elements, 1, 256));
    gpu::launch(
        find_not_finite_kernel,
        {.blocks = dim3(blocks, static_cast<unsigned>(number)), .threads = threads, .stream = gpu::stream(backend)},
        "find_not_finite_kernel", table, counts.data<std::int64_t>());
  }
}

void update_scale(Cuda backend, const ScalerRule& rule, const Tensor& scale, const Tensor& factor,
                  const Tensor& counts) {
  const gpu::DeviceGuard guard(backend.device);
  gpu::launch(update_scale_kernel, {.stream = gpu::stream(backend)}, "update_scale_kernel", rule, scale.data<float>(),
              factor.data<float>(), counts.data<std::int64_t>());
}

}  // namespace bevel::nn::detail
