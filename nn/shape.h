// Modules that change the shape.
#pragma once

#include <bevel/nn/module.h>

namespace bevel::nn {

// [N, ...] to [N, product of the rest].
class Flatten : public Module {
 public:
  Tensor forward(const Tensor& input) override;
  Flatten clone() const { return detail::cloned(*this, Flatten{}); }
};

}  // namespace bevel::nn
