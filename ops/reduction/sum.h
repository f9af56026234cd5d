// Sums and means over axes.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/reduction/axes.h>
#include <bevel/ops/reduction/sum_to.h>

namespace bevel {

struct ReduceOptions {
  bool keepdim = false;  // reduced axes stay, with size 1
};

// The sum over `axes`: sum(x), sum(x, -1), sum(x, {0, 2}, {.keepdim = true}). Floating tensors keep their dtype and are
// accumulated in double (in f32 within runs of four on CUDA); integers and bool give i64. The sum of nothing is 0.
Tensor sum(const Tensor& x, const Axes& axes = {}, ReduceOptions options = {});

// The same divided by the number of elements summed. Floating tensors only; the mean of nothing is NaN.
Tensor mean(const Tensor& x, const Axes& axes = {}, ReduceOptions options = {});

}  // namespace bevel
