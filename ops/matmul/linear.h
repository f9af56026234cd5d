// The affine map of a fully connected layer.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

// input [..., in] times the transpose of weight [out, in], plus bias [out] where it is defined: [..., out]. dtypes as
// for matmul, all alike. Differentiable any number of times.
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {});

}  // namespace bevel
