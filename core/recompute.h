// Outputs that are computed again in backward instead of being kept.
//
// An operator whose output is cheap to compute, and whose inputs are kept anyway, says so:
//
//   record("scale", y, {x}, {x}, ...);
//   recompute("scale again", y, {x}, [](std::span<const Tensor> kept) { return scale(kept[0]); });
//
// A node that saves y afterwards keeps x and the function in place of y's elements. They go when the last handle of the
// forward pass does, and come back for as long as a backward function needs them: the same bits, if the function
// computes as the operator did. A y that is still there is taken as it is.
#pragma once

#include <bevel/core/tensor.h>

#include <functional>
#include <initializer_list>
#include <span>

namespace bevel {

using Recomputation = std::function<Tensor(std::span<const Tensor> kept)>;

// `output` is the only output of an operator that has just been recorded; without history there is nothing to do. The
// function gets `kept`, of which some may be undefined, and returns a new tensor of output's shape and dtype. It is
// called without recording, and must not depend on what may have changed by then: random numbers, an Autocast scope,
// matmul_precision(). `name` (a string literal) is what Profiler shows. `kept` is version-checked: to change one of
// them in place before the backward pass is an Error there. An output that was changed in place before a node saves it
// is kept as it is, and so is a view of an output.
void recompute(const char* name, const Tensor& output, std::initializer_list<Tensor> kept, Recomputation function);

}  // namespace bevel
