#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/matmul/detail/bias.h>

#include <algorithm>

namespace bevel::detail {

namespace {

template <class T>
__global__ void add_bias_kernel(T* rows, const T* bias, std::int64_t count, std::int64_t channels) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    rows[i] = static_cast<T>(static_cast<compute_t<T>>(rows[i]) + static_cast<compute_t<T>>(bias[i % channels]));
}

}  // namespace

void add_bias(Cuda backend, const Tensor& y, const Tensor& bias) {
  const std::int64_t count = y.numel();
  if (count == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  constexpr int threads = 256;
  const std::int64_t most = 8 * static_cast<std::int64_t>(gpu::multiprocessors(backend.device));
  const auto blocks = static_cast<unsigned>(std::min((count + threads - 1) / threads, most));
  visit_floating(y.dtype(), "add_bias", [&]<class T>() {
    add_bias_kernel<<<blocks, threads, 0, gpu::stream(backend)>>>(y.data<T>(), bias.data<T>(), count, bias.numel());
  });
  gpu::check(cudaGetLastError(), "add_bias_kernel");
}

}  // namespace bevel::detail
