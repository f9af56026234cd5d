// Points in time of a stream, without any CUDA header. Defined in events.cpp, which a CPU-only build leaves out.
#pragma once

#include <bevel/core/stream.h>

#include <memory>

namespace bevel::gpu {

// A cudaEvent_t behind void*.
std::shared_ptr<void> make_timed_event(Device device);
// The event is the moment at which the work queued so far on `stream` is done.
void record_event(const std::shared_ptr<void>& event, const Stream& stream);
// Waits for both. They are of one device.
double seconds_between(const std::shared_ptr<void>& first, const std::shared_ptr<void>& second);

}  // namespace bevel::gpu
