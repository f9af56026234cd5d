// Variances over axes.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/reduction/axes.h>

namespace bevel {

// Order of the fields: unbiased, keepdim.
struct VarOptions {
  bool unbiased = false;  // divides by one less than the number of elements
  bool keepdim = false;   // reduced axes stay, with size 1
};

// The mean squared distance from the mean over `axes` (none: all), in two passes: var(x, {0, 2}, {.keepdim = true}).
// Floating tensors only; sums in double. NaN for no elements, and for one if unbiased.
Tensor var(const Tensor& x, const Axes& axes = {}, VarOptions options = {});

}  // namespace bevel
