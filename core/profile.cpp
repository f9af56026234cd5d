#include <bevel/core/cuda/backend.h>
#include <bevel/core/detail/recording.h>
#include <bevel/core/profile.h>
#include <bevel/core/stream.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

namespace bevel {

namespace {

std::atomic<bool>& ranges() {
  static std::atomic<bool> on = [] {
    const char* text = std::getenv("BEVEL_NVTX");
    return has_cuda && text && std::atoi(text) != 0;
  }();
  return on;
}

}  // namespace

void enable_ranges(bool enable) {
  ranges() = enable && has_cuda;
}

Range::Range(const char* name) : open_(ranges().load(std::memory_order_relaxed)) {
  if constexpr (has_cuda)
    if (open_) gpu::open_range(name);
}

Range::~Range() {
  if constexpr (has_cuda)
    if (open_) gpu::close_range();
}

namespace detail {
constinit thread_local Profiler* profiler = nullptr;
}

struct Profiler::State {
  using Clock = std::chrono::steady_clock;
  struct Mark {
    const char* phase;
    const char* name;
    std::shared_ptr<void> event;  // on a GPU
    Clock::time_point time;       // on the CPU
  };
  using Key = std::pair<std::string, std::string>;

  Device device;
  std::vector<Mark> marks;  // the first is where the clock starts
  std::map<Key, ProfileRow> sums;

  Mark now(const char* phase, const char* name) const {
    Mark mark{phase, name, nullptr, Clock::now()};
    if constexpr (has_cuda)
      if (device.is_cuda()) mark.event = gpu::record_time(current_stream(device).handle(), device);
    return mark;
  }

  double seconds(const Mark& from, const Mark& to) const {
    if constexpr (has_cuda)
      if (device.is_cuda()) return gpu::seconds_between(from.event.get(), to.event.get());
    return std::chrono::duration<double>(to.time - from.time).count();
  }

  // Adds up the marks so far; the last becomes the first.
  void fold() {
    for (std::size_t i = 1; i < marks.size(); ++i) {
      ProfileRow& row = sums[{marks[i].phase, marks[i].name}];
      row.phase = marks[i].phase;
      row.name = marks[i].name;
      ++row.calls;
      row.seconds += seconds(marks[i - 1], marks[i]);
    }
    marks.erase(marks.begin(), marks.end() - 1);
  }
};

Profiler::Profiler(Device device) : state_(std::make_unique<State>()) {
  require(!detail::profiler, "Profiler: this thread has one already");
  state_->device = device;
  state_->marks.push_back(state_->now("", ""));
  detail::profiler = this;
}

Profiler::~Profiler() {
  detail::profiler = nullptr;
}

void Profiler::mark(const char* phase, const char* name) {
  if (detail::recording) return;
  constexpr std::size_t most_marks = 4096;
  if (state_->marks.size() == most_marks) state_->fold();
  state_->marks.push_back(state_->now(phase, name));
}

std::vector<ProfileRow> Profiler::rows() {
  state_->fold();
  std::vector<ProfileRow> result;
  for (const auto& [key, row] : state_->sums) result.push_back(row);
  std::stable_sort(result.begin(), result.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.seconds > b.seconds; });
  return result;
}

std::string profile_table(const std::vector<ProfileRow>& rows) {
  double total = 0;
  for (const ProfileRow& row : rows) total += row.seconds;
  char line[160];
  std::snprintf(line, sizeof line, "%-10s %-24s %10s %12s %12s %7s\n", "phase", "operator", "calls", "total ms",
                "us a call", "share");
  std::string table = line;
  for (const ProfileRow& row : rows) {
    std::snprintf(line, sizeof line, "%-10s %-24s %10lld %12.3f %12.2f %6.1f%%\n", row.phase.c_str(), row.name.c_str(),
                  static_cast<long long>(row.calls), row.seconds * 1e3,
                  row.seconds * 1e6 / static_cast<double>(row.calls), total > 0 ? 100 * row.seconds / total : 0);
    table += line;
  }
  return table;
}

}  // namespace bevel
