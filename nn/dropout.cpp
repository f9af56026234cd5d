#include <bevel/nn/dropout.h>
#include <bevel/ops/pointwise/dropout.h>

namespace bevel::nn {

Dropout::Dropout(double p) : p_(p) {
  require(p >= 0 && p <= 1, "Dropout: p must lie in [0, 1]; got ", p);
}

Tensor Dropout::forward(const Tensor& input) {
  return dropout(input, p_, is_training());
}

}  // namespace bevel::nn
