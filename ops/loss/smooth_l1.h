// Smooth L1: quadratic near zero, linear beyond beta (Girshick, Fast R-CNN, 2015).
//
// With d = input - target:   |d| < beta:  d² / (2 beta), gradient d / beta     else:  |d| - beta / 2, gradient sign(d)
#pragma once

#include <bevel/ops/loss/options.h>
#include <bevel/ops/loss/smooth_l1_formula.h>

namespace bevel {

// Order of the fields: beta, then those of LossOptions.
struct SmoothL1Options {
  double beta = 1;
  Reduction reduction = Reduction::mean;
  Tensor weight = {};
  NumberOrTensor scale = 1.0;
  std::optional<NumberOrTensor> normalizer = {};
  bool fused = true;
};

// Contract, which but for beta holds for every loss:
// - input and target have the same shape, dtype and device; nothing is broadcast.
// - f32, f64, bf16, f16; the half types are read and written as such and computed in f32; a reduced loss is f32.
//   Other dtypes are an Error.
// - none gives the input's shape; mean and sum a scalar. An empty input gives 0, connected to the graph, where other
//   libraries give NaN for the mean: a batch without boxes must not poison a training.
// - NaN gives NaN, in loss and gradient. d = ±inf gives loss inf and gradient ±1.
// - The target gets a gradient where it requires one: the negative of the input's.
// - The second derivative is 1 / beta where |d| < beta, else 0; third ones are an Error.
// - beta = 0, after rounding to the compute type, is exactly L1, with gradient 0 at d = 0. A negative, infinite or NaN
//   beta is an Error.
// - More than 2³¹ elements are right; sums beyond a few elements are in f64. The same input gives the same bits.
Tensor smooth_l1(const Tensor& input, const Tensor& target, const SmoothL1Options& options = {});

}  // namespace bevel
