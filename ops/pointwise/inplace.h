// Changes in place, for parameters, gradients and statistics, outside the graph.
//
// Each is an Error on a tensor with history, or on one that requires a gradient while gradients are recorded, and on a
// mismatch of shape, dtype or device (nothing broadcasts). Each marks the tensor changed, so that a backward pass which
// had kept the old elements says so. See also Tensor::copy_from.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

void fill_(const Tensor& t, double value);
// t += alpha * other, the product rounded before the sum. f32, f64, bf16, f16.
void add_(const Tensor& t, const Tensor& other, double alpha = 1);
// t *= factor. f32, f64, bf16, f16, i32, i64.
void mul_(const Tensor& t, double factor);
void copy_(const Tensor& t, const Tensor& source);

}  // namespace bevel
