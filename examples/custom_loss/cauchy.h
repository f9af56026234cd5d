// A loss of one's own: c²/2 · log(1 + (error / c)²), quadratic near zero, logarithmic far from it (Cauchy's loss).
#pragma once

#include <bevel/ops/loss/pointwise_loss.h>

struct Cauchy {
  static constexpr const char* name = "cauchy";  // for error messages
  double c = 1;

  template <class X>
  BEVEL_HD X operator()(X error) const {
    const X q = error / c;
    return 0.5 * c * c * log1p(q * q);
  }
};
