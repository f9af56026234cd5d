#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

// x repeated to `shape` by NumPy's rule: axes aligned at the end, missing ones and those of size 1 are repeated. A copy
// unless the shape is x's own. Error where x does not broadcast to `shape`. Its derivative is sum_to.
Tensor broadcast_to(const Tensor& x, const Shape& shape);

}  // namespace bevel
