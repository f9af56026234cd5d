// The adjoint of broadcasting.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

// Sums over the axes along which `shape` broadcasts to x.shape(), so that the result has that shape; x itself where
// nothing broadcasts. Error unless `shape` broadcasts to x.shape(). Its derivative is broadcast_to.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace bevel
