// Activations: functions of one tensor as modules, element by element; see ops/pointwise/unary.h.
#pragma once

#include <bevel/nn/module.h>
#include <bevel/ops/pointwise/unary.h>

namespace bevel::nn {

// A module around a function without options.
template <Tensor (*function)(const Tensor&)>
class Pointwise : public Module {
 public:
  Tensor forward(const Tensor& input) override { return function(input); }
  Pointwise clone() const { return detail::cloned(*this, Pointwise{}); }
};

using ReLU = Pointwise<relu>;
using SiLU = Pointwise<silu>;
using GELU = Pointwise<gelu>;
using Tanh = Pointwise<bevel::tanh>;
using Sigmoid = Pointwise<sigmoid>;
using Softplus = Pointwise<softplus>;

class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double slope = 0.01) : slope_(slope) {}

  Tensor forward(const Tensor& input) override { return leaky_relu(input, slope_); }
  LeakyReLU clone() const { return detail::cloned(*this, LeakyReLU{slope_}); }

 private:
  double slope_;
};

}  // namespace bevel::nn
