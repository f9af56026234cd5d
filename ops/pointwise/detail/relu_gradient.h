// What operators that end in relu need of it.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel::detail {

// dy where y = relu(x) is positive, else 0; NaN where y is. Recorded.
Tensor relu_gradient(const Tensor& dy, const Tensor& y);

// y = relu(y), unrecorded, for a result that nobody has seen.
void relu_in_place(const Tensor& y);

}  // namespace bevel::detail
