// A formula used in a .cpp and in a .cu file of one program.
#pragma once

#include <bevel/ops/loss/pointwise_loss.h>

namespace bevel::testing {

// |d|^3 / 3, without an analytic derivative.
struct Cubic {
  static constexpr const char* name = "cubic";

  template <class X>
  BEVEL_HD X operator()(X d) const {
    return abs(d) * d * d / 3;
  }
};

// Of input and target: t² exp(x / t).
struct Pair {
  template <class X>
  BEVEL_HD X operator()(X x, X t) const {
    return t * t * exp(x / t);
  }
};

Tensor cubic_from_cpp(const Tensor& input, const Tensor& target, const LossOptions& options);
Tensor pair_from_cpp(const Tensor& input, const Tensor& target, const LossOptions& options);
Tensor cubic_from_cuda(const Tensor& input, const Tensor& target, const LossOptions& options);
Tensor pair_from_cuda(const Tensor& input, const Tensor& target, const LossOptions& options);

}  // namespace bevel::testing
