// Cross entropy of class scores.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/loss/reduction.h>

#include <cstdint>

namespace bevel {

// Order of the fields: reduction, label_smoothing, ignore_index.
struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;        // 0 <= s <= 1: this share of the target is spread evenly over all classes
  std::int64_t ignore_index = -100;  // a target that takes no part: exactly 0 in loss and gradient, even beside NaN
};

// -sum over classes of q * log_softmax(logits), where q is 1 - s at the target plus s / C everywhere.
//
// logits [N, C], floating; target [N], i64 or i32, on the same device. `none` gives [N], `sum` and `mean` a scalar,
// `mean` divides by the number of targets that are not ignored and is 0 where there are none. The result is f64 for f64
// and f32 for all others. A target that is neither a class nor ignore_index is an Error on the CPU; on CUDA, where
// looking for one would wait for the device, it makes the loss NaN. One kernel forward and one
// backward; second derivatives go through operators.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});

}  // namespace bevel
