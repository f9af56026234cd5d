#include <bevel/core/cuda/backend.h>
#include <bevel/core/memory.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

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

struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;
  Stream stream;
};

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
    stats_.cached += block.bytes;
    try {
      const std::size_t size = block.bytes;
      cached_.emplace(size, std::move(block));
    } catch (const std::bad_alloc&) {  // no memory even for the list: give the block back
      stats_.cached -= block.bytes;
      system_free(block.data, device_);
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
  // The smallest cached block that fits without wasting more than a quarter; one last used on the current stream first.
  Block take_cached(std::size_t wanted) {
    const Stream stream = current_stream(device_);
    auto best = cached_.end();
    for (auto it = cached_.lower_bound(wanted); it != cached_.end() && it->first <= wanted + wanted / 4; ++it) {
      if (best == cached_.end()) best = it;
      if (it->second.stream == stream) {
        best = it;
        break;
      }
    }
    if (best == cached_.end()) return {};
    Block block = std::move(best->second);
    cached_.erase(best);
    stats_.cached -= block.bytes;
    return block;
  }

  void* take_from_system(std::size_t asked, std::size_t wanted) {
    ++stats_.system_calls;
    void* data = system_allocate(wanted, device_);
    if (!data && !cached_.empty()) {
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
    for (auto& [size, block] : cached_) system_free(block.data, device_);
    cached_.clear();
    stats_.cached = 0;
  }

  template <class... Parts>
  [[noreturn]] void out_of_memory(std::size_t asked, const Parts&... parts) const {
    throw OutOfMemory(message("out of memory on ", device_, ": ", asked, " bytes asked for; tensors hold ", stats_.live,
                              " bytes (at most ", stats_.peak, " so far), the cache ", stats_.cached, "; ", parts...));
  }

  Device device_;
  std::mutex mutex_;
  std::multimap<std::size_t, Block> cached_;
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
  if (bytes == 0) return std::shared_ptr<Buffer>(new Buffer(nullptr, 0, 0, device, {}));
  Block block = allocator(device).allocate(bytes);
  return std::shared_ptr<Buffer>(new Buffer(block.data, bytes, block.bytes, device, std::move(block.stream)));
}

Buffer::~Buffer() {
  if (data_) allocator(device_).free({data_, block_bytes_, std::move(stream_)});
}

void* Buffer::data() {
  if (device_.is_cuda() && data_) {
    Stream current = current_stream(device_);
    if (!(current == stream_)) {
      order(stream_, current);
      stream_ = std::move(current);
    }
  }
  return data_;
}

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
