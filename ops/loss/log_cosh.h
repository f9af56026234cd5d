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
  template <class X>
  BEVEL_HD X operator()(X d) const {
    const X distance = abs(d);
    const bool is_near = value_of(distance) < 1;
    constexpr double log_2 = 0.69314718055994530942;
    if constexpr (is_float<X>) {
      const X e = exp(-2 * distance);
      return select(is_near, near_value(d * d), multiply_add(e, far_rest(e), distance - log_2));
    } else {
      // With m = exp(-|d|) - 1 and e = 1 + m:
      //   |d| < 1:  log1p(cosh d - 1), where cosh d - 1 = m² / (2 e)      else:  |d| + log1p(e²) - log 2
      // and log1p(a / b) = log((1 + s) / (1 - s)) with s = a / (2 b + a).
      const X m = expm1(-distance);
      const X e = 1 + m;
      const X above = select(is_near, m * m, e * e);
      const X below = above + select(is_near, 4 * e, X(2));
      const X y = log_of_ratio(quotient(above, below, reciprocal(below)));
      return select(is_near, y, distance + (y - log_2));
    }
  }
  template <class X>
  BEVEL_HD X derivative(X d) const {
    if constexpr (is_float<X>) {
      const X distance = abs(d);
      const X e = exp(-2 * distance);
      const X far = multiply_add(X(-2), e * reciprocal(1 + e), X(1));  // tanh |d|
      return select(value_of(distance) < 1, d * near_slope(d * d), select(value_of(d) < 0, -far, far));
    } else {
      return tanh(d);
    }
  }

 private:
  // In f32, polynomials that interpolate; the errors of the results are about 2 ulp.
  // log cosh(d) and tanh(d) / d, of z = d² <= 1.
  BEVEL_HD static Number<float> near_value(Number<float> z) {
    return z * polynomial(z, 0.5f, -8.33329707e-2f, 2.22163554e-2f, -6.70951186e-3f, 2.07557832e-3f, -5.54665516e-4f,
                          8.60541040e-5f);
  }
  BEVEL_HD static Number<float> near_slope(Number<float> z) {
    return polynomial(z, 1.0f, -3.33332777e-1f, 1.33321390e-1f, -5.38697056e-2f, 2.14614104e-2f, -7.91248493e-3f,
                      2.27864762e-3f, -3.52328090e-4f);
  }
  // log(1 + e) / e for e <= exp(-2).
  BEVEL_HD static Number<float> far_rest(Number<float> e) {
    return polynomial(e, 1.0f, -4.99995857e-1f, 3.33085179e-1f, -2.44727269e-1f, 1.52762681e-1f);
  }
};

}  // namespace formula

}  // namespace bevel
