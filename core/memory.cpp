#include <bevel/core/cuda/backend.h>
#include <bevel/core/detail/pool.h>
#include <bevel/core/detail/recording.h>
#include <bevel/core/memory.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace bevel {

namespace {

// AddressSanitizer finds uses after free only where blocks go back to the system.
#ifdef __SANITIZE_ADDRESS__
constexpr bool caching_built = false;
#else
constexpr bool caching_built = true;
#endif

constexpr std::size_t cpu_alignment = 64;
constexpr std::size_t cuda_granularity = 512;

void* system_allocate(std::size_t bytes, Device device) {
  if constexpr (has_cuda)
    if (device.is_cuda()) return gpu::allocate(bytes, device);
  return std::aligned_alloc(cpu_alignment, bytes);
}

void system_free(void* data, Device device) noexcept {
  if constexpr (has_cuda)
    if (device.is_cuda()) return gpu::free(data, device);
  std::free(data);
}

// Rounds up to the next of sixteen classes per power of two, in multiples of the device's granularity.
std::size_t size_class(std::size_t bytes, Device device) {
  const std::size_t granularity = device.is_cuda() ? cuda_granularity : cpu_alignment;
  std::size_t step = granularity;
  while (step * 32 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

bool caching_enabled() {
  static const bool enabled = [] {
    const char* text = std::getenv("BEVEL_NO_CACHE");
    return caching_built && (!text || std::atoi(text) == 0);
  }();
  return enabled;
}

using detail::Block;

class CachingAllocator {
 public:
  explicit CachingAllocator(Device device) : device_(device) {}

  Block allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t wanted = size_class(bytes, device_);
    if (limit_ != 0 && stats_.live + wanted > limit_) out_of_memory(bytes, "the limit set is ", limit_);
    Block block = take_cached(wanted);
    if (!block.data) block = {take_from_system(bytes, wanted), wanted, current_stream(device_)};
    stats_.live += block.bytes;
    stats_.peak = std::max(stats_.peak, stats_.live);
    return block;
  }

  void free(Block block) noexcept {
    const std::lock_guard lock(mutex_);
    stats_.live -= block.bytes;
    if (!caching_enabled()) return system_free(block.data, device_);
    const std::size_t bytes = block.bytes;
    void* const data = block.data;
    try {
      bin(bytes)->blocks.push_back(std::move(block));
      stats_.cached += bytes;
    } catch (const std::bad_alloc&) {  // no memory even for the list: give the block back
      system_free(data, device_);
    }
  }

  void release_cached() {
    const std::lock_guard lock(mutex_);
    release_locked();
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.live;
  }

  void set_limit(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
  }

 private:
  // Cached blocks of one size. A bin stays when it is empty, so that a training loop changes nothing but its own lists.
  struct Bin {
    std::size_t bytes;
    std::vector<Block> blocks;
  };

  std::vector<Bin>::iterator first_bin(std::size_t bytes) {
    return std::lower_bound(bins_.begin(), bins_.end(), bytes,
                            [](const Bin& bin, std::size_t size) { return bin.bytes < size; });
  }
  std::vector<Bin>::iterator bin(std::size_t bytes) {
    auto it = first_bin(bytes);
    if (it == bins_.end() || it->bytes != bytes) it = bins_.insert(it, {bytes, {}});
    return it;
  }

  // The smallest cached block that fits without wasting more than a quarter; one last used on the current stream first.
  Block take_cached(std::size_t wanted) {
    if (stats_.cached == 0) return {};
    const Stream& stream = current_stream(device_);
    Bin* best = nullptr;
    for (auto it = first_bin(wanted); it != bins_.end() && it->bytes <= wanted + wanted / 4; ++it) {
      for (std::size_t i = it->blocks.size(); i > 0; --i)
        if (it->blocks[i - 1].stream == stream) return take(*it, i - 1);
      if (!best && !it->blocks.empty()) best = &*it;
    }
    return best ? take(*best, best->blocks.size() - 1) : Block();
  }

  Block take(Bin& bin, std::size_t index) {
    std::swap(bin.blocks[index], bin.blocks.back());
    Block block = std::move(bin.blocks.back());
    bin.blocks.pop_back();
    stats_.cached -= block.bytes;
    return block;
  }

  void* take_from_system(std::size_t asked, std::size_t wanted) {
    ++stats_.system_calls;
    void* data = system_allocate(wanted, device_);
    if (!data && stats_.cached > 0) {
      release_locked();
      data = system_allocate(wanted, device_);
    }
    if (data) return data;
    if constexpr (has_cuda) {
      if (device_.is_cuda()) {
        const auto [free, total] = gpu::free_and_total_memory(device_);
        out_of_memory(asked, "the device has ", free, " of ", total, " bytes free");
      }
    }
    out_of_memory(asked, "the system gave no more");
  }

  void release_locked() {
    for (const Bin& bin : bins_)
      for (const Block& block : bin.blocks) system_free(block.data, device_);
    bins_.clear();
    stats_.cached = 0;
  }

  template <class... Parts>
  [[noreturn]] void out_of_memory(std::size_t asked, const Parts&... parts) const {
    throw OutOfMemory(message("out of memory on ", device_, ": ", asked, " bytes asked for; tensors hold ", stats_.live,
                              " bytes (at most ", stats_.peak, " so far), the cache ", stats_.cached, "; ", parts...));
  }

  Device device_;
  std::mutex mutex_;
  std::vector<Bin> bins_;  // by size
  MemoryStats stats_;
  std::size_t limit_ = 0;
};

// Never destroyed: tensors with static storage may outlive any order of destruction.
CachingAllocator& allocator(Device device) {
  constexpr int max_devices = 64;
  static CachingAllocator& cpu_allocator = *new CachingAllocator(cpu);
  if (!device.is_cuda()) return cpu_allocator;
  require(device.index >= 0 && device.index < std::min(max_devices, cuda_device_count()), "there is no device ", device,
          "; CUDA devices usable here: ", cuda_device_count());
  static auto& cuda_allocators = *[] {
    auto* allocators = new std::array<CachingAllocator*, max_devices>{};
    for (int i = 0; i < cuda_device_count() && i < max_devices; ++i)
      (*allocators)[static_cast<std::size_t>(i)] = new CachingAllocator(cuda(i));
    return allocators;
  }();
  return *cuda_allocators[static_cast<std::size_t>(device.index)];
}

}  // namespace

std::shared_ptr<Buffer> Buffer::allocate(std::size_t bytes, Device device) {
  if (bytes == 0) return std::make_shared<Buffer>(Key(), Block(), 0, device);
  if (detail::recording) [[unlikely]]
    if (auto buffer = detail::allocate_while_recording(bytes, device)) return buffer;
  return std::make_shared<Buffer>(Key(), allocator(device).allocate(bytes), bytes, device);
}

Buffer::~Buffer() {
  if (!block_.data) return;
  if (pool_)
    pool_->free(std::move(block_));
  else
    allocator(device_).free(std::move(block_));
}

void Buffer::use_on_current_stream() {
  if (!block_.data) return;
  const Stream& current = current_stream(device_);
  // A recorded use is ordered when the graph is replayed.
  if (current == block_.stream || detail::recording) return;
  order(block_.stream, current);
  block_.stream = current;
}

namespace detail {

std::shared_ptr<MemoryPool> MemoryPool::pinned(Device device) {
  require(has_cuda && device.is_cuda(), "pinned memory: a CUDA device expected; got ", device);
  auto pool = std::make_shared<MemoryPool>(cpu, Stream(), 0);
  pool->pinned_for_ = device;
  return pool;
}

MemoryPool::~MemoryPool() {
  if (pinned_for_.is_cuda()) return;  // host_ gives it back
  for (Block& block : free_) allocator(device_).free(std::move(block));
}

std::shared_ptr<Buffer> MemoryPool::allocate(std::size_t bytes) {
  const std::size_t wanted = size_class(bytes, device_);
  const std::lock_guard lock(mutex_);
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it)
    if (it->bytes >= wanted && it->bytes <= wanted + wanted / 4 && (best == free_.end() || it->bytes < best->bytes))
      best = it;
  Block block;
  if (best != free_.end()) {
    block = std::move(*best);
    free_.erase(best);
  } else {
    block = take_more(bytes, wanted);
    bytes_ += block.bytes;
    free_.reserve(++blocks_);
  }
  return std::make_shared<Buffer>(Buffer::Key(), std::move(block), bytes, device_, shared_from_this());
}

Block MemoryPool::take_more(std::size_t bytes, std::size_t wanted) {
  if constexpr (has_cuda)
    if (pinned_for_.is_cuda()) {
      host_.push_back(gpu::host_memory(wanted, pinned_for_));
      return {host_.back().get(), wanted, {}};
    }
  if (max_bytes_ != 0 && bytes_ + wanted > max_bytes_)
    throw OutOfMemory(message("out of memory in the pool of a captured step: ", bytes, " bytes asked for; the step ",
                              "holds ", bytes_, " bytes, and the limit set is ", max_bytes_));
  Block block = allocator(device_).allocate(bytes);
  if (!(block.stream == stream_)) former_streams_.push_back(std::exchange(block.stream, stream_));
  return block;
}

void MemoryPool::free(Block block) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(block));  // allocate() has made room
}

void MemoryPool::order_former_streams() {
  for (const Stream& former : former_streams_) order(former, stream_);
  former_streams_.clear();
}

}  // namespace detail

MemoryStats memory_stats(Device device) {
  return allocator(device).stats();
}
void reset_peak_memory(Device device) {
  allocator(device).reset_peak();
}
void release_cached_memory(Device device) {
  allocator(device).release_cached();
}
void set_memory_limit(Device device, std::size_t bytes) {
  allocator(device).set_limit(bytes);
}

}  // namespace bevel
