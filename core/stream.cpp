#include <bevel/core/cuda/backend.h>
#include <bevel/core/stream.h>

#include <array>
#include <atomic>
#include <mutex>

namespace bevel {

namespace {

constexpr std::size_t max_devices = 64;

// The library's own stream of each device; never destroyed, since buffers refer to it until the end.
const Stream& default_stream(Device device) {
  static std::array<std::atomic<const Stream*>, max_devices> streams{};
  static std::mutex mutex;
  std::atomic<const Stream*>& slot = streams[static_cast<std::size_t>(device.index)];
  const Stream* stream = slot.load(std::memory_order_acquire);
  if (stream) return *stream;
  const std::lock_guard lock(mutex);
  stream = slot.load(std::memory_order_acquire);
  if (!stream) slot.store(stream = new Stream(device), std::memory_order_release);
  return *stream;
}

// The stream of the innermost guard, by device. Plain pointers: buffers may be freed while a thread ends, when objects
// with a destructor are gone.
constinit thread_local Stream* guarded[max_devices] = {};

Stream*& guarded_on(Device device) {
  return guarded[static_cast<std::size_t>(device.index)];
}

}  // namespace

Stream::Stream(Device device) : device_(device) {
  if constexpr (has_cuda)
    if (device.is_cuda()) handle_ = gpu::make_stream(device);
}

void Stream::synchronize() const {
  if constexpr (has_cuda)
    if (handle_) gpu::synchronize_stream(handle_.get(), device_);
}

const Stream& current_stream(Device device) {
  static const Stream& none = *new Stream;
  if (!device.is_cuda()) return none;
  const Stream* guard = guarded_on(device);
  return guard ? *guard : default_stream(device);
}

void order(const Stream& earlier, const Stream& later) {
  if constexpr (has_cuda)
    if (earlier.handle() && later.handle() && !(earlier == later))
      gpu::order_streams(earlier.handle(), later.handle(), earlier.device());
}

StreamGuard::StreamGuard(Stream stream) : stream_(std::move(stream)), previous_(nullptr) {
  if (!stream_.device().is_cuda()) return;
  Stream*& slot = guarded_on(stream_.device());
  previous_ = slot;
  slot = &stream_;
}

StreamGuard::~StreamGuard() {
  if (stream_.device().is_cuda()) guarded_on(stream_.device()) = previous_;
}

}  // namespace bevel
