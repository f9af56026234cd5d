// Linear layers so small that launches take longer than the arithmetic: all of the forward in one kernel, and all of
// the backward in another. On CUDA, in f32.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel::detail {

// Whether x [rows, in] by a weight [out, in] is computed so.
bool is_small_linear(const Tensor& x, const Tensor& weight);

// y [rows, out] = x weight' + bias, then relu where `relu`; the bias may be undefined.
void small_linear(Cuda backend, const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu, const Tensor& y);

// The gradients of what is defined among dx, dw and db; db only beside dw. `y` is the layer's output where it ends in
// relu, else undefined.
void small_linear_backward(Cuda backend, const Tensor& dy, const Tensor& y, const Tensor& x, const Tensor& weight,
                           const Tensor& dx, const Tensor& dw, const Tensor& db);

}  // namespace bevel::detail
