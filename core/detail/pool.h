// A private pool: the memory of one recorded graph. What is freed within a recording is handed out again within it;
// nobody else gets the memory before the pool is gone, since every replay writes it.
#pragma once

#include <bevel/core/memory.h>

#include <mutex>
#include <vector>

namespace bevel::detail {

class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  // Holds at most `max_bytes`; 0 is no limit. Work of the graph runs on `stream`.
  MemoryPool(Device device, Stream stream, std::size_t max_bytes)
      : device_(device), stream_(std::move(stream)), max_bytes_(max_bytes) {}
  // All memory goes back to the device's allocator.
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // OutOfMemory beyond the limit, or where the device has too little.
  std::shared_ptr<Buffer> allocate(std::size_t bytes);
  void free(Block block) noexcept;

  // After the recording: work queued on other streams that used the memory before is done before the pool's stream
  // goes on.
  void order_former_streams();

  std::size_t bytes() const { return bytes_; }

 private:
  Device device_;
  Stream stream_;
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::mutex mutex_;
  std::size_t blocks_ = 0;
  std::vector<Block> free_;
  std::vector<Stream> former_streams_;
};

}  // namespace bevel::detail
