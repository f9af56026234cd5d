#include <bevel/core/cuda/cudnn.h>
#include <bevel/core/cuda/runtime.h>

#include <map>

namespace bevel::gpu {

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char words[512] = {};
  cudnnGetLastErrorString(words, sizeof words);
  fail(what, ": ", cudnnGetErrorString(status), words[0] ? ", " : "", words);
}

cudnnHandle_t cudnn(Device device) {
  struct Entry {
    cudnnHandle_t handle = nullptr;
    cudaStream_t stream = nullptr;
  };
  // Never destroyed: at thread exit that would wait for the device.
  thread_local auto& entries = *new std::map<int, Entry>;
  Entry& entry = entries[device.index];
  const cudaStream_t current = stream(device);
  if (!entry.handle) {
    const DeviceGuard guard(device);
    check(cudnnCreate(&entry.handle), "cudnnCreate");
  }
  if (entry.stream != current) {
    check(cudnnSetStream(entry.handle, current), "cudnnSetStream");
    entry.stream = current;
  }
  return entry.handle;
}

}  // namespace bevel::gpu
