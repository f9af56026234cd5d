// The quantile (pinball) loss of Koenker and Bassett (1978), whose minimum is the quantile tau of the target.
//
// With d = input - target:  d > 0 (too high):  (1 - tau) d     d < 0 (too low):  -tau d     gradient 0 at d = 0
//
// The contract of smooth_l1.h holds. Exact to the rounding of one product at every magnitude; d = ±inf gives loss inf
// and gradient 1 - tau or -tau. The second derivative is 0.
#pragma once

#include <bevel/ops/loss/formula.h>
#include <bevel/ops/loss/options.h>

namespace bevel {

// Order of the fields: tau, then those of LossOptions.
struct QuantileOptions {
  double tau = 0.5;
  Reduction reduction = Reduction::mean;
  Tensor weight = {};
  NumberOrTensor scale = 1.0;
  std::optional<NumberOrTensor> normalizer = {};
  bool fused = true;
};

// Error unless 0 < tau < 1.
Tensor quantile_loss(const Tensor& input, const Tensor& target, const QuantileOptions& options = {});

namespace formula {

// With tau rounded to T.
template <class T>
struct QuantileIn {
  T tau;

  template <class X>
  BEVEL_HD X operator()(X d) const {
    return abs(d) * slope(d);
  }
  template <class X>
  BEVEL_HD X derivative(X d) const {
    return sign(d) * slope(d);
  }

 private:
  template <class X>
  BEVEL_HD X slope(X d) const {
    return select(value_of(d) > 0, X(1 - tau), X(tau));
  }
};

struct Quantile {
  double tau;

  template <class T>
  QuantileIn<T> in() const {
    return {static_cast<T>(tau)};
  }
};

}  // namespace formula

}  // namespace bevel
