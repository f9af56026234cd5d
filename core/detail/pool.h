// Private pools. That of a recorded graph: what is freed within a recording is handed out again within it; nobody else
// gets the memory before the pool is gone, since every replay writes it. And pinned memory of the host, which a GPU
// reads by itself: it is dear to get, so what was freed is kept.
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
  // Pinned memory of the host for copies to `device`; its buffers are on the CPU. Needs CUDA.
  static std::shared_ptr<MemoryPool> pinned(Device device);
  // All memory goes back to where it came from.
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
  Block take_more(std::size_t bytes, std::size_t wanted);

  Device device_;
  Device pinned_for_ = cpu;  // a GPU: memory is pinned
  Stream stream_;
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::mutex mutex_;
  std::size_t blocks_ = 0;
  std::vector<Block> free_;
  std::vector<Stream> former_streams_;
  std::vector<std::shared_ptr<void>> host_;  // all of it, if pinned
};

}  // namespace bevel::detail
