#include "ops/loss/two_compilers/formula.h"

namespace bevel::testing {

Tensor cubic_from_cpp(const Tensor& input, const Tensor& target, const LossOptions& options) {
  return pointwise_loss(Cubic{}, input, target, options);
}
Tensor pair_from_cpp(const Tensor& input, const Tensor& target, const LossOptions& options) {
  return pointwise_loss(Pair{}, input, target, options);
}

}  // namespace bevel::testing
