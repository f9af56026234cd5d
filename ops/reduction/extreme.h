// Greatest and least elements over axes, and where they are.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/reduction/sum.h>

namespace bevel {

// The greatest or least element over `axes` (none: all). NaN if there is one. Error if there is nothing to choose from,
// and for bool. The gradient is shared equally among elements that tie.
Tensor max(const Tensor& x, const Axes& axes = {}, ReduceOptions options = {});
Tensor min(const Tensor& x, const Axes& axes = {}, ReduceOptions options = {});

// Where along `axis` the greatest or least element is, as i64: the first of several, and the first NaN if there is one.
// Without an axis: its place in the flattened tensor. Error if there is nothing to choose from, and for u8 and bool.
Tensor argmax(const Tensor& x, int axis, ReduceOptions options = {});
Tensor argmin(const Tensor& x, int axis, ReduceOptions options = {});
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x);

}  // namespace bevel
