// Checks of a captured step (capture.h) for which nothing waits.
#pragma once

#include <bevel/core/tensor.h>

#include <string>

namespace bevel::detail {

// While a step is recorded: after every run of the graph in which the first element of `flag`, an i32 on the device, is
// not 0, one of the next calls of the step throws Error with the message.
void check_after_replay(const Tensor& flag, std::string message);

}  // namespace bevel::detail
