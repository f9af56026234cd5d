// CPU threads. Work is cut into tiles whose bounds depend on the problem alone, so that results do not depend on the
// number of threads; which thread runs a tile does not matter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace bevel {

// Threads used by parallel_for, the caller included: hardware threads at first, or the environment's BEVEL_THREADS.
int num_threads();
// Error unless count >= 1. Not to be called while parallel work runs.
void set_num_threads(int count);

// Calls tile(i) once for every 0 <= i < count, on several threads, and returns when all are done. The first exception
// thrown by a tile is thrown again here, after the others have ended. A parallel_for within a tile runs on its thread.
void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& tile);

// Cuts 0..size into runs of `grain` (the last may be shorter) and calls range(begin, end) for each.
template <class F>
void parallel_ranges(std::int64_t size, std::int64_t grain, const F& range) {
  if (size <= grain) {
    if (size > 0) range(std::int64_t{0}, size);
    return;
  }
  parallel_for((size + grain - 1) / grain, [&](std::int64_t i) { range(i * grain, std::min(size, (i + 1) * grain)); });
}

}  // namespace bevel
