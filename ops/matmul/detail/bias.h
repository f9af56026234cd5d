// Adding a bias to rows: after a matrix product or a convolution.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel::detail {

// y[..., c] += bias[c], in place; both of one floating dtype.
void add_bias(Cpu, const Tensor& y, const Tensor& bias);
void add_bias(Cuda backend, const Tensor& y, const Tensor& bias);

}  // namespace bevel::detail
