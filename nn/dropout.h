// Dropout: see ops/pointwise/dropout.h.
#pragma once

#include <bevel/nn/module.h>

namespace bevel::nn {

// In training mode zeroes elements with probability p and divides the others by 1 - p; else hands its input on. The
// numbers come from default_generator().
class Dropout : public Module {
 public:
  // Error unless 0 <= p <= 1.
  explicit Dropout(double p = 0.5);

  Tensor forward(const Tensor& input) override;
  Dropout clone() const { return detail::cloned(*this, Dropout{p_}); }

 private:
  double p_;
};

}  // namespace bevel::nn
