// Timing on one device.
#pragma once

#include <bevel/core/device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace bevel::bench {

// A sequence of calls: the i-th works on set i modulo the number of sets.
using Calls = std::function<void(std::int64_t index)>;

struct Elapsed {
  double device = 0;  // seconds between two events around the calls; 0 on the CPU
  double wall = 0;    // seconds on the host, until the device is done
};

// Runs calls first .. first + count - 1 back to back.
Elapsed run_calls(Cpu, const Calls& calls, std::int64_t first, std::int64_t count);
Elapsed run_calls(Cuda backend, const Calls& calls, std::int64_t first, std::int64_t count);

// Calls recorded as one CUDA graph, to be replayed without the host. The calls must have run before, on the current
// stream, so that all memory they need is cached there; they may neither wait for the device nor copy to the host. The
// memory they use belongs to the caching allocator: nothing may be given back to the system while the graph lives.
class GraphTimer {
 public:
  GraphTimer(Cuda backend, const Calls& calls, std::int64_t count);
  ~GraphTimer();
  GraphTimer(const GraphTimer&) = delete;
  GraphTimer& operator=(const GraphTimer&) = delete;

  // Seconds of one replay on the device. A replay before it is under way when the clock starts, so that the time to
  // launch a graph is not counted.
  double replay();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct DeviceInfo {
  std::string name;
  std::int64_t cache_bytes = 0;  // L2 of a GPU, last level of a CPU
  std::int64_t free_bytes = 0;   // memory that is free now
};
DeviceInfo device_info(Cpu);
DeviceInfo device_info(Cuda backend);

}  // namespace bevel::bench
