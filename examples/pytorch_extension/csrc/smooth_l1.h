// The operators of smooth L1, as the dispatcher calls them. `reduction` is at::Reduction; input and target have the
// same shape.
#pragma once

#include <ATen/core/Reduction.h>

#include <tuple>

#include "tensors.h"

namespace bevel_torch {

at::Tensor smooth_l1_loss(const at::Tensor& input, const at::Tensor& target, int64_t reduction, double beta);

// The same with its history, where a gradient will be asked for.
at::Tensor smooth_l1_loss_autograd(const at::Tensor& input, const at::Tensor& target, int64_t reduction, double beta);

// The loss and its derivative with respect to the input (the target's is the negative), from one pass. Not for `none`.
std::tuple<at::Tensor, at::Tensor> smooth_l1_loss_with_gradient(const at::Tensor& input, const at::Tensor& target,
                                                                int64_t reduction, double beta);

// The gradient with respect to the input.
at::Tensor smooth_l1_loss_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& target,
                                   int64_t reduction, double beta);

// Derivatives of smooth_l1_loss_backward, in `direction`, with respect to grad and input.
std::tuple<at::Tensor, at::Tensor> smooth_l1_loss_double_backward(const at::Tensor& direction, const at::Tensor& grad,
                                                                  const at::Tensor& input, const at::Tensor& target,
                                                                  int64_t reduction, double beta);

// gradient · factor of a gradient that has no other owner; nothing is moved where the factor, which the host does not
// know, is 1.
void scale_own_gradient(const at::Tensor& gradient, const at::Tensor& factor);

// Checks that hold on every device, and the operands with a common dtype.
std::tuple<at::Tensor, at::Tensor> checked_operands(const at::Tensor& input, const at::Tensor& target,
                                                    int64_t reduction, double beta);

}  // namespace bevel_torch
