// Gradient clipping.
#pragma once

#include <bevel/core/tensor.h>

#include <span>

namespace bevel::nn {

// Scales the gradients of `parameters` in place so that their norm, sqrt of the sum of all squares, is at most
// max_norm: by min(1, max_norm / (norm + 1e-6)). Parameters without a gradient are passed over, one given twice counts
// once. Returns the norm before, f64 of shape [] on the gradients' device, where everything stays: nothing waits for
// the device until somebody reads it. Squares are summed in f64 in a fixed order, so the result is the same every time.
// A norm of NaN or infinity makes the gradients NaN or 0; look at the result to catch it. Error unless max_norm is
// finite and not negative and all gradients are f32 or f64 on one device.
Tensor clip_grad_norm(std::span<const Tensor> parameters, double max_norm);

// Limits every element of the gradients to [-max_value, max_value], in place; NaN stays NaN. Error as above.
void clip_grad_value(std::span<const Tensor> parameters, double max_value);

}  // namespace bevel::nn
