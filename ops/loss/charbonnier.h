// Charbonnier's loss (1994), a smooth L1 of one piece: √(d² + eps²) with d = input - target, gradient d / √(d² + eps²).
//
// The contract of smooth_l1.h holds. The square is never formed, so 1e±20 are right in f32; at d = 0 the loss is eps.
// d = ±inf gives loss inf and gradient ±1. The second derivative is eps² / (d² + eps²)^(3/2).
#pragma once

#include <bevel/ops/loss/formula.h>
#include <bevel/ops/loss/options.h>

namespace bevel {

// Order of the fields: eps, then those of LossOptions.
struct CharbonnierOptions {
  double eps = 1e-3;
  Reduction reduction = Reduction::mean;
  Tensor weight = {};
  NumberOrTensor scale = 1.0;
  std::optional<NumberOrTensor> normalizer = {};
  bool fused = true;
};

// Error unless eps is positive and finite. An eps below the normal numbers of the compute type counts as the smallest
// one.
Tensor charbonnier(const Tensor& input, const Tensor& target, const CharbonnierOptions& options = {});

namespace formula {

// With eps rounded to T.
template <class T>
struct CharbonnierIn {
  T eps;

  // The larger of |d| and eps is taken out of the root.
  template <class X>
  BEVEL_HD X operator()(X d) const {
    const X distance = abs(d);
    return select(value_of(distance) >= eps, distance, X(eps)) * root(ratio(d));
  }
  template <class X>
  BEVEL_HD X derivative(X d) const {
    const X r = ratio(d);
    const X below = root(r);
    return quotient(select(value_of(abs(d)) >= eps, sign(d), r), below, reciprocal(below));
  }

 private:
  // The smaller of d and eps over the larger.
  template <class X>
  BEVEL_HD X ratio(X d) const {
    const bool is_far = value_of(abs(d)) >= eps;
    return select(is_far, X(eps), d) / select(is_far, d, X(eps));
  }
  template <class X>
  BEVEL_HD static X root(X ratio) {
    return sqrt(1 + ratio * ratio);
  }
};

struct Charbonnier {
  double eps;

  template <class T>
  CharbonnierIn<T> in() const {
    return {eps < std::numeric_limits<T>::min() ? std::numeric_limits<T>::min() : static_cast<T>(eps)};
  }
};

}  // namespace formula

}  // namespace bevel
