// The CUDA runtime behind typed checks and handles. Included by .cu files and by core/cuda/*.cpp only.
#pragma once

#include <bevel/core/cuda/backend.h>
#include <bevel/core/cuda/check.h>
#include <bevel/core/stream.h>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <memory>

namespace bevel::gpu {

// Throws Error with what failed and the library's own words.
void check(cublasStatus_t status, const char* what);

// Makes `device` current for this thread while the guard lives. With one device there is nothing to do.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device) : several_(cuda_device_count() > 1) {
    if (several_) change(device);
  }
  ~DeviceGuard() {
    if (several_) restore();
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  void change(Device device);
  void restore() const;

  bool several_;
  int previous_ = 0;
};

// The current stream of `device`, on which kernels are launched.
inline cudaStream_t stream(Device device) {
  return static_cast<cudaStream_t>(current_stream(device).handle());
}
inline cudaStream_t stream(Cuda backend) {
  return stream(backend.device);
}

// A cuBLAS handle of this thread, set to the current stream of `device`; deterministic, no tensor-core rounding of f32.
cublasHandle_t cublas(Device device);

// Properties asked once: multiprocessors of the device.
int multiprocessors(Device device);

// An event, destroyed with its owner.
struct EventDeleter {
  void operator()(cudaEvent_t event) const noexcept { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDeleter>;
Event make_event(bool timed = false);

}  // namespace bevel::gpu
