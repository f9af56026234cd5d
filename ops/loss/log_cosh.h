// log cosh(d) with d = input - target: d² / 2 near zero, |d| - log 2 far from it; gradient tanh(d).
//
// The contract of smooth_l1.h holds. Right to a few units in the last place near zero (1e-4 gives 5e-9), at 1e4 and at
// 1e20, since neither cosh overflows nor do logarithms cancel. d = ±inf gives loss inf and gradient ±1. The second
// derivative is 1 - tanh²(d).
#pragma once

#include <bevel/ops/loss/formula.h>
#include <bevel/ops/loss/options.h>

namespace bevel {

Tensor log_cosh(const Tensor& input, const Tensor& target, const LossOptions& options = {});

namespace formula {

struct LogCosh {
  static constexpr bool is_heavy = true;

  // With m = exp(-|d|) - 1 and e = 1 + m:
  //   |d| < 1:  log1p(cosh d - 1), where cosh d - 1 = m² / (2 e)      else:  |d| + log1p(e²) - log 2
  // and log1p(a / b) = log((1 + s) / (1 - s)) with s = a / (2 b + a).
  template <class X>
  BEVEL_HD X operator()(X d) const {
    constexpr double log_2 = 0.69314718055994530942;
    const X distance = abs(d);
    const bool is_near = value_of(distance) < 1;
    const X m = expm1(-distance);
    const X e = 1 + m;
    const X above = select(is_near, m * m, e * e);
    const X below = above + select(is_near, 4 * e, X(2));
    const X y = log_of_ratio(quotient(above, below, reciprocal(below)));
    return select(is_near, y, distance + (y - log_2));
  }
  template <class X>
  BEVEL_HD X derivative(X d) const {
    if constexpr (is_differentiated<X>) return tanh(d);
    // The same by what the value needs, too: with m as above tanh |d| = -m (2 + m) / (1 + (1 + m)²).
    const X m = expm1(-abs(d));
    const X e = 1 + m;
    const X below = 1 + e * e;
    const X slope = quotient(-m * (2 + m), below, reciprocal(below));
    return select(value_of(d) < 0, -slope, slope);
  }
};

}  // namespace formula

}  // namespace bevel
