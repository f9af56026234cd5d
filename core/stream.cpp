#include <bevel/core/cuda/backend.h>
#include <bevel/core/stream.h>

#include <map>
#include <mutex>

namespace bevel {

namespace {

// The library's own stream of each device; never destroyed, since buffers refer to it until the end.
const Stream& default_stream(Device device) {
  static std::mutex mutex;
  static auto& streams = *new std::map<int, Stream>;
  const std::lock_guard lock(mutex);
  auto [it, is_new] = streams.try_emplace(device.index);
  if (is_new) it->second = Stream(device);
  return it->second;
}

// The stream of the innermost guard, by device. Plain pointers: buffers may be freed while a thread ends, when objects
// with a destructor are gone.
constexpr std::size_t max_devices = 64;
thread_local Stream* guarded[max_devices] = {};

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

Stream current_stream(Device device) {
  if (!device.is_cuda()) return {};
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
