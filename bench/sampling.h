// How often to call, over how many sets of tensors, and what to make of the times.
#pragma once

#include "bench/timer.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bevel::bench {

// So many sets that together they hold `bytes`, several times the last cache, as far as `memory` allows: each call then
// finds its inputs in memory, not in a cache.
struct Rotation {
  static constexpr std::int64_t most_sets = 1024;

  std::int64_t bytes = 0;
  std::int64_t memory = 0;

  std::int64_t sets(std::int64_t set_bytes) const {
    const std::int64_t wanted = std::min(most_sets, (bytes + set_bytes - 1) / set_bytes);
    return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, memory / set_bytes));
  }
};

// Takes samples (seconds each) until they sum up to min_time; Google Benchmark decides how many. At least `least`.
std::vector<double> sample(const std::string& name, double min_time, int least, const std::function<double()>& take);

double median(std::vector<double> values);

// Calls in a sample: enough to fill `seconds`, at most 4096.
std::int64_t calls_in_sample(double seconds_a_call, double seconds);

// Seconds a call, back to back: medians of samples of at least a millisecond (2 on a GPU, where each ends by waiting).
template <class Backend>
Elapsed time_back_to_back(Backend backend, const std::string& name, const Calls& calls, std::int64_t sets,
                          double min_time) {
  const std::int64_t probe_calls = std::min<std::int64_t>(sets, 8);
  const double probe = run_calls(backend, calls, 0, probe_calls).wall / static_cast<double>(probe_calls);
  const std::int64_t count = calls_in_sample(probe, std::is_same_v<Backend, Cpu> ? 1e-3 : 2e-3);
  std::int64_t next = 0;
  std::vector<double> device;
  const std::vector<double> wall = sample(name, min_time, 3, [&] {
    const Elapsed elapsed = run_calls(backend, calls, next, count);
    next = (next + count) % sets;
    device.push_back(elapsed.device);
    return elapsed.wall;
  });
  return {median(device) / static_cast<double>(count), median(wall) / static_cast<double>(count)};
}

// Seconds a call in graph replay over whole cycles of the sets.
inline double time_replay(Cuda backend, const std::string& name, const Calls& calls, std::int64_t sets,
                          double min_time) {
  const double probe = run_calls(backend, calls, 0, sets).device / static_cast<double>(sets);
  const std::int64_t cycles = (calls_in_sample(probe, 1e-3) + sets - 1) / sets;
  GraphTimer graph(backend, calls, sets * cycles);
  return median(sample(name, min_time, 3, [&] { return graph.replay(); })) / static_cast<double>(sets * cycles);
}

// Seconds a call without the host's part in it: in graph replay on a GPU, by the clock on the CPU.
inline double time_bare(Cpu backend, const Calls& calls, std::int64_t sets, double min_time) {
  run_calls(backend, calls, 0, sets);
  return time_back_to_back(backend, "plain", calls, sets, min_time).wall;
}
inline double time_bare(Cuda backend, const Calls& calls, std::int64_t sets, double min_time) {
  run_calls(backend, calls, 0, sets);
  return time_replay(backend, "plain", calls, sets, min_time);
}

}  // namespace bevel::bench
