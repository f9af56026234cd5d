// EvoNorm: normalisation and nonlinearity in one layer (Liu et al., "Evolving Normalization-Activation Layers", 2020).
//
// y = z * gamma + beta with, for a picture batch and per channel c:
//   B0  z = x / max(sqrt(var_{n,h,w} + eps), v * x + sqrt(var_{h,w} + eps))
//   B1  z = x / max(sqrt(var_{n,h,w} + eps), (x + 1) * sqrt(mean_{h,w}(x^2) + eps))
//   B2  z = x / max(sqrt(var_{n,h,w} + eps), sqrt(mean_{h,w}(x^2) + eps) - x)
//   S0  z = x * sigmoid(v * x) / sqrt(var_{h,w,c/g} + eps)
//   S1  z = x * sigmoid(x)     / sqrt(var_{h,w,c/g} + eps)
//   S2  z = x * sigmoid(x)     / sqrt(mean_{h,w,c/g}(x^2) + eps)
// Variances are biased. c/g means over the channels of a group; groups are runs of adjacent channels. A tie in max
// gives the whole gradient to the batch term. docs/evonorm.md derives the gradients.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/evonorm/variant.h>
#include <bevel/ops/layout.h>

#include <cstdint>

namespace bevel {

// Order of the fields as given.
struct EvoNormOptions {
  EvoNorm variant = EvoNorm::S0;
  std::int64_t groups = 8;      // S variants only; must divide the channels
  std::int64_t group_size = 0;  // channels a group, in place of the number of groups; 0: `groups` counts
  double eps = 1e-5;            // added to variances and mean squares, inside the square root; not negative
  double momentum = 0.1;        // weight of the new value in running_var; 0 to 1
  bool training = true;         // B variants: whether the batch term is the batch's variance or running_var
  bool nonlinearity = true;     // false: y = x * gamma + beta, and neither v nor running_var is used
  Layout layout = Layout::nhwc;
  bool recompute = false;  // the result is not kept for the backward pass of what follows, but computed again there
};

// x: [N, H, W, C] or [N, C, H, W] as options.layout says; f32, f64, bf16 or f16. The result is of its shape and dtype.
// gamma, beta, v: [C], f32, or f64 where x is f64; v is undefined for a variant without it.
// running_var: as the parameters; used by B variants only. In training it becomes
//   (1 - momentum) * running_var + momentum * var_{n,h,w}, outside the graph, and may be undefined: nothing is tracked
//   then. In evaluation it takes the place of var_{n,h,w}. Statistics of a single picture always come from the input.
//
// Computed in f32 (f64 where x is f64), statistics centred. Backward keeps x, the parameters and O(N * C) statistics;
// it cannot be differentiated again. A batch of no elements gives an empty result and leaves running_var alone. Error:
// a rank other than 4; parameters of another shape, dtype or device; groups, or a group size, that do not divide C; v
// missing, or given where the variant has none; running_var missing in evaluation, requiring a gradient, or given to an
// S variant.
Tensor evonorm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& v, const Tensor& running_var,
               const EvoNormOptions& options = {});

}  // namespace bevel
