// Memory: buffers from a caching allocator, one for each device.
//
// Freed blocks are kept and handed out again, so a training loop allocates from the system in its first step only.
// Sizes are rounded up to one of sixteen classes per power of two (at most 6.25 % more than asked, at least 64 bytes on
// the CPU and 512 on a GPU), and a request takes the smallest cached block of at most 1.25 times its size. When the
// system has no more, the cache is released and the request tried once more before OutOfMemory is thrown.
// The environment's BEVEL_NO_CACHE=1 returns every block to the system at once, so that memory checkers see all errors;
// builds under AddressSanitizer do so always.
#pragma once

#include <bevel/core/device.h>
#include <bevel/core/stream.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace bevel {

namespace detail {
class MemoryPool;

// A piece of memory from the allocator, and the stream that used it last.
struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;
  Stream stream;
};
}  // namespace detail

// A block of memory, shared by the tensors that view it. Not copyable; made by Buffer::allocate.
//
// A buffer belongs to the stream that used it last. data() on a thread whose current stream is another makes that one
// wait for the work queued on the former, and belongs to it from then on.
class Buffer {
 public:
  // Uninitialised memory; 0 bytes are allowed (data() is then null). OutOfMemory where the device has too little.
  static std::shared_ptr<Buffer> allocate(std::size_t bytes, Device device);

  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() {
    if (device_.is_cuda()) use_on_current_stream();
    return block_.data;
  }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // Counts changes in place, so that autograd notices when a tensor kept for a backward pass was overwritten.
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void mark_changed() { version_.fetch_add(1, std::memory_order_relaxed); }

  // The pool that the memory belongs to; null for the allocator's own.
  const detail::MemoryPool* pool() const { return pool_.get(); }

 private:
  friend class detail::MemoryPool;
  struct Key {};  // who may make a buffer

 public:
  Buffer(Key, detail::Block block, std::size_t bytes, Device device, std::shared_ptr<detail::MemoryPool> pool = {})
      : block_(std::move(block)), bytes_(bytes), device_(device), pool_(std::move(pool)) {}

 private:
  void use_on_current_stream();

  detail::Block block_;
  std::size_t bytes_;
  Device device_;
  std::atomic<std::uint64_t> version_{0};
  std::shared_ptr<detail::MemoryPool> pool_;
};

struct MemoryStats {
  std::size_t live = 0;            // bytes in buffers now
  std::size_t cached = 0;          // bytes kept for later
  std::size_t peak = 0;            // most live bytes since the start or reset_peak_memory
  std::uint64_t system_calls = 0;  // allocations asked from the system so far
};

MemoryStats memory_stats(Device device);
void reset_peak_memory(Device device);
// Gives the cached blocks back to the system.
void release_cached_memory(Device device);
// An allocation that would take live bytes beyond `bytes` throws OutOfMemory; 0 takes the limit away.
void set_memory_limit(Device device, std::size_t bytes);

}  // namespace bevel
