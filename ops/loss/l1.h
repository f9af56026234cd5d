// L1, the mean absolute error: |d| with d = input - target, gradient sign(d), 0 at d = 0.
//
// The contract of smooth_l1.h holds. Exact at every magnitude; d = ±inf gives loss inf and gradient ±1. The second
// derivative is 0.
#pragma once

#include <bevel/ops/loss/formula.h>
#include <bevel/ops/loss/options.h>

namespace bevel {

Tensor l1(const Tensor& input, const Tensor& target, const LossOptions& options = {});

namespace formula {

struct L1 {
  template <class X>
  BEVEL_HD X operator()(X d) const {
    return abs(d);
  }
  template <class X>
  BEVEL_HD X derivative(X d) const {
    return sign(d);
  }
};

}  // namespace formula

}  // namespace bevel
