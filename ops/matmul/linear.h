// The affine map of a fully connected layer, with its activation.
#pragma once

#include <bevel/core/tensor.h>

#include <cstdint>

namespace bevel {

// What follows the affine map. On CUDA relu is part of the matrix product's kernel; the others are the operators of
// ops/pointwise/unary.h.
enum class Activation : std::uint8_t { none, relu, silu, gelu };

// activation(input [..., in] times the transpose of weight [out, in], plus bias [out] where it is defined): [..., out].
// dtypes as for matmul, all alike; within an Autocast scope (ops/autocast.h) f32 is rounded to the scope's type. On
// CUDA the bias is added in the matrix product's kernel, and summed for its gradient in that of the weights' gradient.
// Differentiable any number of times.
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

}  // namespace bevel
