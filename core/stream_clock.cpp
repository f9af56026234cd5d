#include <bevel/core/stream_clock.h>

#include <bevel/core/cuda/events.h>

#include <utility>

namespace bevel {

StreamClock::StreamClock(Device device) : stream_(current_stream(device)) {}

void StreamClock::mark(Point& point) {
  if constexpr (has_cuda) {
    if (stream_.device().is_cuda()) {
      if (!point.event) point.event = gpu::make_timed_event(stream_.device());
      return gpu::record_event(point.event, stream_);
    }
  }
  point.time = std::chrono::steady_clock::now();
}

void StreamClock::start() {
  if (used_ == most_open) add_up();
  if (used_ == stretches_.size()) stretches_.emplace_back();
  mark(stretches_[used_].first);
  running_ = true;
}

void StreamClock::stop() {
  if (!running_) return;
  mark(stretches_[used_].second);
  running_ = false;
  ++used_;
}

void StreamClock::add_up() {
  for (std::size_t i = 0; i < used_; ++i) {
    const auto& [first, second] = stretches_[i];
    if constexpr (has_cuda) {
      if (first.event) {
        seconds_ += gpu::seconds_between(first.event, second.event);
        continue;
      }
    }
    seconds_ += std::chrono::duration<double>(second.time - first.time).count();
  }
  used_ = 0;
}

double StreamClock::seconds() {
  // An open stretch stays open: its beginning moves to the front.
  const std::size_t open = used_;
  add_up();
  if (running_ && open > 0) std::swap(stretches_[0].first, stretches_[open].first);
  return seconds_;
}

}  // namespace bevel
