// Checks of the CUDA runtime's answers, without the rest of the library: what a program needs that uses kernels from
// their headers alone.
#pragma once

#include <bevel/core/error.h>

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace bevel::gpu {

// Throws Error with what failed and the runtime's own words; out of memory becomes OutOfMemory.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // an error of one call is not the next call's
  const std::string text = message(what, ": ", cudaGetErrorName(status), ", ", cudaGetErrorString(status));
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(text);
  throw Error(text);
}

// An attribute of the current device, asked of the driver once.
template <cudaDeviceAttr attribute>
int current_device_attribute() {
  static std::array<std::atomic<int>, 64> known{};  // the value and 1, so that 0 is unknown
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  std::atomic<int>& entry = known[static_cast<std::size_t>(device)];
  int value = entry.load(std::memory_order_relaxed) - 1;
  if (value < 0) {
    check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
    entry.store(value + 1, std::memory_order_relaxed);
  }
  return value;
}

}  // namespace bevel::gpu
