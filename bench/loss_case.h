// Cases of a loss of (input, target): every pass through the public API.
#pragma once

#include "bench/case.h"

#include <bevel/ops/loss/reduction.h>

namespace bevel::bench {

using LossFunction = std::function<Tensor(const Tensor& input, const Tensor& target, Reduction, bool fused)>;

struct LossCase {
  std::string op;
  NamedShape shape;
  Dtype dtype = f32;
  bool quick = false;
  LossFunction loss;
  Range input = {};
  Range target = {};
};

// mean: the loss alone (two tensors read) and loss with gradient, fused (two read, one written) and unfused (two read;
// two read, one written).
std::vector<Case> mean_cases(const LossCase& loss);
// none: forward (two read, one written), backward alone (three read, one written) and both.
std::vector<Case> none_cases(const LossCase& loss);

}  // namespace bevel::bench
