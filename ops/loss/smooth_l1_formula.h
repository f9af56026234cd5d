// The formula of smooth L1 (smooth_l1.h), which needs no tensors.
#pragma once

#include <bevel/ops/loss/formula.h>

namespace bevel::formula {

// With beta rounded to T.
template <class T>
struct SmoothL1In {
  T beta;
  T up;  // d / beta is computed as (d up) inverse, since 1 / beta overflows for the smallest beta
  T inverse;

  template <class X>
  BEVEL_HD X operator()(X d) const {
    const X distance = abs(d);
    return select(value_of(distance) < beta, T(0.5) * d * (d * up * inverse), distance - T(0.5) * beta);
  }

  template <class X>
  BEVEL_HD X derivative(X d) const {
    return select(value_of(abs(d)) < beta, d * up * inverse, sign(d));
  }
};

struct SmoothL1 {
  double beta = 1;

  template <class T>
  SmoothL1In<T> in() const {
    const T rounded = static_cast<T>(beta);
    const T up = rounded < T(1e-30) ? T(0x1p100) : T(1);
    return {rounded, up, rounded == 0 ? T(0) : 1 / (rounded * up)};
  }
};

}  // namespace bevel::formula
