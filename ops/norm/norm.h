// Batch and group normalisation, with the activation behind them, in kernels of their own.
//
// y = activation((x - mean) / sqrt(var + eps) * weight + bias)
//   batch_norm  mean and biased variance of a channel over the whole batch (Ioffe and Szegedy, ICML 2015)
//   group_norm  those of one picture over a run of channels / groups adjacent channels (Wu and He, ECCV 2018)
//
// Input: [N, H, W, C] or [N, C, H, W] as options.layout says; f32, f64, bf16 or f16. The result is of its shape and
// dtype. Weight and bias: [C], f32, or f64 where the input is f64; undefined ones are 1 and 0. Computed in f32 (f64
// where the input is f64), statistics centred; the same bits each time.
//
// Backward keeps the input and O(N * C) statistics. It can be differentiated again for f32 and f64: that second order
// is made of operators and takes their time and memory. A batch of no elements gives an empty result and leaves running
// statistics alone.
//
// Errors: a rank other than 4; parameters of another shape, dtype or device; an activation other than none, relu and
// silu; an eps that is negative or not finite.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/activation.h>
#include <bevel/ops/layout.h>

#include <cstdint>

namespace bevel {

// Order of the fields as given.
struct BatchNormOptions {
  double eps = 1e-5;      // added to the variance
  double momentum = 0.1;  // weight of the new value in the running statistics; 0 to 1
  bool training = true;   // whether to normalise by the batch's statistics or by the running ones
  Activation activation = Activation::none;
  Layout layout = Layout::nhwc;
  bool recompute = false;  // the result is not kept for the backward pass of what follows, but computed again there
};

// running_mean and running_var: [C], of the parameters' dtype. In training they become
//   (1 - momentum) * running + momentum * (mean, unbiased variance),
// outside the graph, or are both undefined: nothing is tracked then. In evaluation they are needed and not changed.
// Error also: a single value a channel in training, whose variance says nothing; one of the running statistics without
// the other, or requiring a gradient.
Tensor batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& options = {});

// Order of the fields as given.
struct GroupNormOptions {
  std::int64_t groups = 8;  // must divide the channels
  double eps = 1e-5;        // added to the variance
  Activation activation = Activation::none;
  Layout layout = Layout::nhwc;
  bool recompute = false;  // the result is not kept for the backward pass of what follows, but computed again there
};

// Error also: groups that do not divide the channels.
Tensor group_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const GroupNormOptions& options = {});

}  // namespace bevel
