// The matrix product as derivatives want it: in the dtype of its operands, whatever scope of Autocast there is.
#pragma once

#include <bevel/ops/matmul/matmul.h>

namespace bevel::detail {

Tensor product(const Tensor& a, const Tensor& b, MatmulOptions options);

}  // namespace bevel::detail
