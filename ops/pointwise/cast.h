// Conversion between element types.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

// x with elements of another dtype: x itself if it has that dtype already. Rounds to nearest, ties to even, between
// floating types (f64 to a half type rounds to f32 first); floating to integer truncates towards zero, and what does
// not fit is undefined; anything to bool is "is not 0" (NaN is true). Differentiable between floating types.
Tensor cast(const Tensor& x, Dtype dtype);

}  // namespace bevel
