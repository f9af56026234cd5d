// The mean squared error: d² with d = input - target, gradient 2 d.
//
// The contract of smooth_l1.h holds. d = ±inf gives loss inf and gradient ±inf. In f32 d² leaves the range of numbers:
// from |d| = 1.9e19 on the loss is inf, where the gradient is still 2 d; below 1e-23 it is 0. The second derivative
// is 2.
#pragma once

#include <bevel/ops/loss/formula.h>
#include <bevel/ops/loss/options.h>

namespace bevel {

Tensor mse(const Tensor& input, const Tensor& target, const LossOptions& options = {});

namespace formula {

struct Mse {
  template <class X>
  BEVEL_HD X operator()(X d) const {
    return d * d;
  }
  template <class X>
  BEVEL_HD X derivative(X d) const {
    return d + d;
  }
};

}  // namespace formula

}  // namespace bevel
