#include <bevel/core/cuda/runtime.h>

#include <nvtx3/nvToolsExt.h>

namespace bevel::gpu {

void open_range(const char* name) {
  nvtxRangePushA(name);
}

void close_range() {
  nvtxRangePop();
}

std::shared_ptr<void> record_time(void* stream, Device device) {
  const DeviceGuard guard(device);
  Event event = make_event(true);
  check(cudaEventRecord(event.get(), static_cast<cudaStream_t>(stream)), "cudaEventRecord");
  return std::shared_ptr<void>(event.release(),
                               [](void* handle) { cudaEventDestroy(static_cast<cudaEvent_t>(handle)); });
}

double seconds_between(void* from, void* to) {
  check(cudaEventSynchronize(static_cast<cudaEvent_t>(to)), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(from), static_cast<cudaEvent_t>(to)),
        "cudaEventElapsedTime");
  return milliseconds * 1e-3;
}

}  // namespace bevel::gpu
