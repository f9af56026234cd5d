#include <bevel/core/detail/recording.h>
#include <bevel/core/random.h>

#include <mutex>

namespace bevel {

namespace {
std::mutex mutex;  // one for all generators: reserving is rare and short
}

void Generator::seed(std::uint64_t seed) {
  set_state({.seed = seed});
}

RandomState Generator::state() const {
  const std::lock_guard lock(mutex);
  return state_;
}

void Generator::set_state(RandomState state) {
  const std::lock_guard lock(mutex);
  state_ = state;
}

RandomState Generator::reserve(std::uint64_t counters) {
  if (detail::recording) return detail::reserve_while_recording(*this, counters);
  const std::lock_guard lock(mutex);
  const RandomState begin = state_;
  state_.offset += counters;
  return begin;
}

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) {
  default_generator().seed(seed);
}

}  // namespace bevel
