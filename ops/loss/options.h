// Options that every loss takes.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/loss/reduction.h>

#include <optional>

namespace bevel {

// A number known on the host, or a tensor of one element (f32 or f64) on the device of the inputs: a loss scale or a
// normaliser that is computed there is never waited for.
class NumberOrTensor {
 public:
  NumberOrTensor(double number) : number_(number) {}
  NumberOrTensor(Tensor tensor) : tensor_(std::move(tensor)) {}

  bool is_tensor() const { return tensor_.defined(); }
  double number() const { return number_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  double number_ = 1;
  Tensor tensor_;
};

// Order of the fields: reduction, weight, scale, normalizer, fused. Losses with a parameter have it as a first field.
struct LossOptions {
  Reduction reduction = Reduction::mean;

  // A factor for each element: of the input's dtype, of its shape or with a last axis of one (a factor for each row,
  // [N, 1] against [N, K]). 0 selects out: such an element adds exactly 0 to loss and gradient, even if it is NaN. It
  // does not change the count that a mean divides by. Error if it requires a gradient.
  Tensor weight = {};

  // A factor for the loss. It is applied in the compute type before a gradient is rounded to a half type; so a loss
  // scale belongs here, not on the result.
  NumberOrTensor scale = 1.0;

  // What a mean divides by in place of the element count. 0 gives loss 0 and gradients 0. Error with none or sum.
  std::optional<NumberOrTensor> normalizer = {};

  // mean and sum compute the gradient in the pass that computes the loss, if an input requires a gradient; false
  // computes it by a second pass, in backward(). Both give the same bits where the upstream gradient is 1, and in f32
  // and f64 always.
  bool fused = true;
};

}  // namespace bevel
