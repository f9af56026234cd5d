// Huber's loss (1964): delta times smooth L1.
//
// With d = input - target:  |d| < delta:  d² / 2, gradient d     else:  delta (|d| - delta / 2), gradient delta sign(d)
//
// The contract of smooth_l1.h holds. d = ±inf gives loss inf and gradient ±delta; d = 1e20 is in the linear part and
// finite; near 0 the loss is d² / 2 to the last bit or two. The second derivative is 1 where |d| < delta, else 0.
#pragma once

#include <bevel/ops/loss/formula.h>
#include <bevel/ops/loss/options.h>

namespace bevel {

// Order of the fields: delta, then those of LossOptions.
struct HuberOptions {
  double delta = 1;
  Reduction reduction = Reduction::mean;
  Tensor weight = {};
  NumberOrTensor scale = 1.0;
  std::optional<NumberOrTensor> normalizer = {};
  bool fused = true;
};

// Error unless delta is positive and finite.
Tensor huber(const Tensor& input, const Tensor& target, const HuberOptions& options = {});

namespace formula {

// With delta rounded to T.
template <class T>
struct HuberIn {
  T delta;

  template <class X>
  BEVEL_HD X operator()(X d) const {
    const X distance = abs(d);
    return select(value_of(distance) < delta, T(0.5) * d * d, delta * (distance - T(0.5) * delta));
  }
  template <class X>
  BEVEL_HD X derivative(X d) const {
    return select(value_of(abs(d)) < delta, d, delta * sign(d));
  }
};

struct Huber {
  double delta;

  template <class T>
  HuberIn<T> in() const {
    return {static_cast<T>(delta)};
  }
};

}  // namespace formula

}  // namespace bevel
