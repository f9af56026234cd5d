// Choice between two tensors.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

// condition ? a : b for every element. The condition is boolean; a and b have the same dtype (any); all are on one
// device and their shapes broadcast. Differentiable in a and b any number of times: an element that was not chosen gets
// gradient 0, even where it is NaN.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, double b);
Tensor where(const Tensor& condition, double a, const Tensor& b);

}  // namespace bevel
