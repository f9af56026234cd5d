// The affine map of a fully connected layer, with its activation.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/activation.h>

namespace bevel {

// activation(input [..., in] times the transpose of weight [out, in], plus bias [out] where it is defined): [..., out].
// dtypes as for matmul, all alike; within an Autocast scope (ops/autocast.h) f32 is rounded to the scope's type. On
// CUDA bias and relu are part of the matrix product's kernel, and the bias' gradient of that of the weights' gradient;
// other activations are the operators of ops/pointwise/unary.h.
// Differentiable any number of times.
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

}  // namespace bevel
