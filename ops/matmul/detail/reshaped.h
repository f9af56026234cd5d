// The same elements under another shape, with history: what matmul and linear fold batches with.
#pragma once

#include <bevel/core/autograd.h>

namespace bevel::detail {

inline Tensor reshaped(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Tensor result = x.view(shape);
  record("reshape", result, {x}, {},
         [from = x.shape()](const Backward& b) { return Gradients{reshaped(b.grad(), from)}; });
  return result;
}

}  // namespace bevel::detail
