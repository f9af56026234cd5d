// The negative log likelihood of a count t = target under a Poisson distribution whose rate has the logarithm x =
// input, without the term that depends on the target alone:  exp(x) - t x, gradient exp(x) - t to the input and -x to
// the target.
//
// The contract of smooth_l1.h holds but for what depends on an error. x = inf gives inf with gradient inf; x = -inf
// gives 0 for t = 0, else inf, with gradient -t. exp(x) overflows f32 from x = 88.8 on (so 1e20 gives inf) and is 0 for
// x = -1e20, where the loss is -t x; at x = 1e-20 it is 1. The second derivative is exp(x).
#pragma once

#include <bevel/ops/loss/formula.h>
#include <bevel/ops/loss/options.h>

namespace bevel {

Tensor poisson_nll(const Tensor& input, const Tensor& target, const LossOptions& options = {});

namespace formula {

struct PoissonNll {
  template <class X>
  BEVEL_HD X operator()(X x, X t) const {
    const X rate = exp(x);
    const bool is_limit = is_infinite(x) & ((value_of(x) > 0) | (value_of(t) == 0));  // else inf - inf or 0 · inf
    return select(is_limit, rate, rate - t * x);
  }
  template <class X>
  BEVEL_HD X derivative(X x, X t) const {
    return exp(x) - t;
  }
};

}  // namespace formula

}  // namespace bevel
