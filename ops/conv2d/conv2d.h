// Two-dimensional convolution (cross-correlation, as everywhere in deep learning).
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/layout.h>
#include <bevel/ops/pair.h>

namespace bevel {

// Order of the fields: stride, padding, dilation, groups, layout.
struct Conv2dOptions {
  Pair stride = 1;
  Pair padding = 0;  // zeros on both sides of each axis
  Pair dilation = 1;
  std::int64_t groups = 1;
  Layout layout = Layout::nhwc;
};

// y[n, i, j, o] = bias[o] + sum over kh, kw, c of x[n, i*stride.h + kh*dilation.h - padding.h, ..., c] w[o, kh, kw, c],
// where x outside the picture is 0.
//
//   input   [N, H, W, C], or [N, C, H, W] for Layout::nchw
//   weight  [out, kernel_h, kernel_w, C / groups] in BOTH layouts, so that a checkpoint does not depend on the layout
//   bias    [out], or undefined
//   result  [N, H', W', out], or [N, out, H', W'], with H' = (H + 2*padding - dilation*(kernel - 1) - 1) / stride + 1
//           rounded down
//
// Output channels o of group g = o / (out / groups) see input channels g*C/groups to (g+1)*C/groups - 1 only. f32, f64,
// bf16 and f16, all tensors alike; half types are summed in f32 (on the CPU by way of f32 copies). nchw is computed by
// way of nhwc copies. f32 on CUDA rounds as matmul_precision() says; within an Autocast scope (ops/autocast.h) f32 is
// rounded to the scope's type, and the result is of that type. On CUDA the work goes through cuDNN where the build has
// it (conv2d/settings.h).
//
// Errors: other shapes or dtypes, groups that do not divide C and out, stride or dilation below 1, negative padding, a
// kernel larger than the padded picture. Differentiable any number of times. Deterministic; on the CPU independent of
// the number of threads.
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, const Conv2dOptions& options = {});

}  // namespace bevel
