#include <bevel/core/cuda/events.h>
#include <bevel/core/cuda/runtime.h>

namespace bevel::gpu {

namespace {

cudaEvent_t handle(const std::shared_ptr<void>& event) {
  return static_cast<cudaEvent_t>(event.get());
}

}  // namespace

std::shared_ptr<void> make_timed_event(Device device) {
  const DeviceGuard guard(device);
  return {make_event(true).release(), EventDeleter()};
}

void record_event(const std::shared_ptr<void>& event, const Stream& stream) {
  const DeviceGuard guard(stream.device());
  check(cudaEventRecord(handle(event), static_cast<cudaStream_t>(stream.handle())), "cudaEventRecord");
}

double seconds_between(const std::shared_ptr<void>& first, const std::shared_ptr<void>& second) {
  check(cudaEventSynchronize(handle(first)), "cudaEventSynchronize");
  check(cudaEventSynchronize(handle(second)), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, handle(first), handle(second)), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) / 1000;
}

}  // namespace bevel::gpu
