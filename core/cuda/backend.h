// What the device-free core asks of CUDA, without any CUDA header. Defined in runtime.cpp, which a CPU-only build
// leaves out: every call stands behind `if constexpr (has_cuda)`.
#pragma once

#include <bevel/core/device.h>

#include <cstddef>
#include <memory>
#include <utility>

namespace bevel::gpu {

// 0 without a driver.
int device_count() noexcept;
void synchronize(Device device);

// Streams are cudaStream_t behind void*.
std::shared_ptr<void> make_stream(Device device);
void synchronize_stream(void* stream, Device device);
void order_streams(void* earlier, void* later, Device device);

// Null where the device has too little memory.
void* allocate(std::size_t bytes, Device device);
void free(void* data, Device device) noexcept;
std::pair<std::size_t, std::size_t> free_and_total_memory(Device device);

// Ordered on the current stream. A copy from or to the host returns when it is done.
void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);
void fill_zero(void* data, Device device, std::size_t bytes);

}  // namespace bevel::gpu
