// What the EvoNorm kernels of both devices are told, and how they are called.
//
// Six variants are two formulas. With the coefficients below, which belong to a channel or to a channel of a sample,
//   gate (S0, S1, S2):  y = x * sigmoid(v * x) * scale + beta       v = 1 for S1, S2; scale = gamma * rstd
//   maximum (B0-B2):    y = x / max(b, a * x + i) * gamma + beta    b the batch's, i the sample's standard deviation;
//                                                                   a = v (B0), i (B1), -1 (B2)
// and the affine case without nonlinearity is the maximum with a = 0, i = 0, b = 1.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/evonorm/evonorm.h>

namespace bevel::evo {

struct Problem {
  EvoNorm variant;
  Layout layout;
  Dtype dtype;
  std::int64_t samples, pixels, channels, groups;
  double eps, momentum;
  bool training;
  bool affine;

  bool gate() const { return !affine && !has_batch_term(variant); }
  // Whether instance statistics are root mean squares about 0 in place of standard deviations.
  bool about_zero() const { return variant == EvoNorm::B1 || variant == EvoNorm::B2 || variant == EvoNorm::S2; }
  // Statistics of one sample: per group for the gate, per channel for the maximum.
  std::int64_t slices() const { return gate() ? groups : channels; }
};

// The small statistics kept for backward, in a form known to the backend alone.
struct Statistics {
  Tensor slice{};  // one sample's, per group or channel
  Tensor batch{};  // per channel; defined for the maximum only
};

struct ForwardArguments {
  Tensor x{}, gamma{}, beta{}, v{}, running_var{};
  Tensor y{};
};

struct BackwardArguments {
  Tensor x{}, gamma{}, v{};
  Statistics statistics{};
  Tensor dy{};
  Tensor dx{};                     // undefined where it is not wanted
  Tensor dgamma{}, dbeta{}, dv{};  // always written; dv is undefined for a variant without v
};

Statistics forward(Cpu, const Problem& problem, const ForwardArguments& arguments);
Statistics forward(Cuda backend, const Problem& problem, const ForwardArguments& arguments);
void backward(Cpu, const Problem& problem, const BackwardArguments& arguments);
void backward(Cuda backend, const Problem& problem, const BackwardArguments& arguments);

}  // namespace bevel::evo
