// Binary cross-entropy of a logit x = input against a probability t = target:
//   -t log σ(x) - (1 - t) log(1 - σ(x)) = log1p(exp(-|x|)) + (x > 0 ? x (1 - t) : -x t)
// with gradient σ(x) - t to the input and -x to the target.
//
// The contract of smooth_l1.h holds but for what depends on an error. Targets are not checked to lie in [0, 1]. A sure
// and right answer keeps its relative accuracy (x = 20, t = 1: 2.06e-9, gradient -2.06e-9). x = ±inf gives 0 where t
// is the 1 or 0 that it says, else inf; gradients are σ(x) - t. x = 1e20 gives x (1 - t); x = 1e-20 gives log 2. The
// second derivative is σ(x) σ(-x).
#pragma once

#include <bevel/ops/loss/formula.h>
#include <bevel/ops/loss/options.h>

namespace bevel {

Tensor bce_with_logits(const Tensor& input, const Tensor& target, const LossOptions& options = {});

namespace formula {

struct BceWithLogits {
  template <class X>
  BEVEL_HD X operator()(X x, X t) const {
    const bool is_positive = value_of(x) > 0;
    const X miss = select(is_positive, 1 - t, t);
    const X cost = select(is_positive, x * (1 - t), -(x * t));
    const bool is_sure_and_right = is_infinite(x) & (value_of(miss) == 0);  // else inf · 0
    return log1p_of_fraction(exp(-abs(x))) + select(is_sure_and_right, X(0), cost);
  }
  template <class X>
  BEVEL_HD X derivative(X x, X t) const {
    const bool is_positive = value_of(x) > 0;
    const X s = of_minus_abs(x);
    return select(is_positive, (1 - t) - s, s - t);
  }

 private:
  // sigmoid(-|x|), from the exponential that the value needs, too.
  template <class X>
  BEVEL_HD static X of_minus_abs(X x) {
    if constexpr (is_differentiated<X>) {
      return sigmoid(select(value_of(x) > 0, -x, x));
    } else {
      const X e = exp(-abs(x));
      return e * reciprocal(1 + e);
    }
  }
};

}  // namespace formula

}  // namespace bevel
