// What the device-free core asks of CUDA, without any CUDA header. Defined in runtime.cpp, which a CPU-only build
// leaves out: every call stands behind `if constexpr (has_cuda)`.
#pragma once

#include <bevel/core/detail/recording.h>
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

// Ordered on the current stream. A copy to the host returns when it is done, one from the host when it has been read.
void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);
void fill_zero(void* data, Device device, std::size_t bytes);
// All of them in as few launches as possible, on the current stream. No two of them may overlap.
void transfer(Device device, const detail::Transfers& transfers);

// --- graphs ---

// From now on what this thread does on `stream` is recorded and not done. Streams that are ordered after `stream`
// meanwhile, by whatever thread, wait for what was queued on it before.
void begin_capture(void* stream, Device device);
// Ends it. A graph that can be launched, and the number of its nodes.
struct Graph {
  std::shared_ptr<void> executable;
  std::size_t nodes = 0;
};
Graph end_capture(void* stream, Device device);
// Ends it without a graph; the stream can be used as before.
void abandon_capture(void* stream, Device device) noexcept;
void launch_graph(const Graph& graph, void* stream, Device device);

// Host memory that kernels can write.
std::shared_ptr<void> host_memory(std::size_t bytes, Device device);

// --- profiling ---

void open_range(const char* name);
void close_range();
// An event that keeps the time at which the stream gets there.
std::shared_ptr<void> record_time(void* stream, Device device);
// Waits until both have come.
double seconds_between(void* from, void* to);

}  // namespace bevel::gpu
