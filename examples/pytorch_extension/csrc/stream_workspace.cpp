#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <tuple>

#include "device.h"

namespace bevel_torch {

namespace {

// Neither PyTorch's allocator nor its streams: the memory must outlive graphs, and be zero before they are replayed.
void* make_zeros(std::size_t bytes) {
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  void* memory = nullptr;
  cudaStream_t aside = nullptr;
  C10_CUDA_CHECK(cudaMalloc(&memory, bytes));
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking));
  C10_CUDA_CHECK(cudaMemsetAsync(memory, 0, bytes, aside));
  C10_CUDA_CHECK(cudaStreamSynchronize(aside));
  C10_CUDA_CHECK(cudaStreamDestroy(aside));
  return memory;
}

unsigned long long capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  C10_CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, &id));
  return status == cudaStreamCaptureStatusActive ? id : 0;
}

}  // namespace

void* stream_workspace(c10::cuda::CUDAStream stream) {
  using Key = std::tuple<int, cudaStream_t, unsigned long long>;
  static std::mutex mutex;
  static auto& known = *new std::map<Key, void*>;
  thread_local Key last{-1, nullptr, 0};
  thread_local void* last_memory = nullptr;
  const Key key{stream.device_index(), stream.stream(), capture_of(stream.stream())};
  if (key == last) return last_memory;
  const std::lock_guard lock(mutex);
  void*& memory = known[key];
  if (!memory) memory = make_zeros(bevel::raw::loss_workspace_bytes);
  last = key;
  last_memory = memory;
  return memory;
}

}  // namespace bevel_torch
