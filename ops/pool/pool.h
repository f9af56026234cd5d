// Pooling over windows of a picture, and over the whole of it.
//
// Input [N, H, W, C], or [N, C, H, W] for Layout::nchw; result [N, H', W', C] or [N, C, H', W'] with
// H' = (H + 2*padding - kernel) / stride + 1 rounded down. f32, f64, bf16 and f16 (computed in f32). Errors: another
// rank or dtype, an empty picture, a kernel or stride below 1, a kernel larger than the padded picture, padding that is
// negative or not smaller than the kernel (some windows would see no pixel). All are deterministic and differentiable
// any number of times.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/layout.h>
#include <bevel/ops/pair.h>

namespace bevel {

// Order of the fields: stride, padding, layout.
struct MaxPool2dOptions {
  Pair stride = 0;   // 0: the kernel, so that windows tile the picture
  Pair padding = 0;  // such pixels are never the maximum
  Layout layout = Layout::nhwc;
};

// The maximum of each window. The gradient goes to the first maximum in row-major order. A NaN in a window is its
// maximum, the first one where there are several.
Tensor max_pool2d(const Tensor& input, Pair kernel, const MaxPool2dOptions& options = {});

// Order of the fields: stride, padding, count_include_pad, layout.
struct AvgPool2dOptions {
  Pair stride = 0;                // 0: the kernel
  Pair padding = 0;               // with zeros
  bool count_include_pad = true;  // divide by the kernel's size; false: by the number of pixels in the picture
  Layout layout = Layout::nhwc;
};

// The mean of each window.
Tensor avg_pool2d(const Tensor& input, Pair kernel, const AvgPool2dOptions& options = {});

// The mean over each channel of each picture: [N, C].
Tensor global_avg_pool(const Tensor& input, Layout layout = Layout::nhwc);

}  // namespace bevel
