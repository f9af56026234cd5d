// Looking into a program while it runs: named ranges for a profiler's timeline, and a table of time by operator.
#pragma once

#include <bevel/core/device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace bevel {

// --- ranges ---
// The library opens ranges named forward, backward (and one for each node), optimizer and data; a profiler such as
// Nsight Systems shows them (NVTX 3, builds with CUDA only). They are off at first, unless the environment has
// BEVEL_NVTX=1, and then cost a branch.
void enable_ranges(bool enable = true);

// Opens a range and closes it again. `name` is a string literal.
class Range {
 public:
  explicit Range(const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  bool open_;
};

// --- the table ---

struct ProfileRow {
  std::string phase;  // forward, backward, optimizer, data
  std::string name;   // of the operator
  std::int64_t calls = 0;
  double seconds = 0;
};

// While it lives, times what its thread does on `device`: by events on the current stream, or by the host's clock on
// the CPU. The time between two marks belongs to the second; operators with history mark their end in forward and
// backward, and so do steps of optimisers and batches of a DataLoader. Times hold the gaps in which the device waits
// for the host. Work in a captured step is not seen. One at a time in a thread.
class Profiler {
 public:
  explicit Profiler(Device device);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // What was queued since the last mark belongs to `name` in `phase`: string literals.
  void mark(const char* phase, const char* name);
  // So far, the longest time first. Waits for the device.
  std::vector<ProfileRow> rows();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The rows as lines of text, with calls, milliseconds and shares.
std::string profile_table(const std::vector<ProfileRow>& rows);

namespace detail {

extern constinit thread_local Profiler* profiler;

inline void profile_mark(const char* phase, const char* name) {
  if (profiler) [[unlikely]]
    profiler->mark(phase, name);
}

}  // namespace detail

}  // namespace bevel
