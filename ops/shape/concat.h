// Tensors put together.
#pragma once

#include <bevel/core/tensor.h>

#include <initializer_list>
#include <span>

namespace bevel {

// The tensors one after the other along `axis`. At least one; dtype, device, rank and all other sizes must agree.
Tensor concat(std::span<const Tensor> tensors, int axis = 0);
Tensor concat(std::initializer_list<Tensor> tensors, int axis = 0);

// The tensors along a new axis in front of `axis`; all of the same shape.
Tensor stack(std::span<const Tensor> tensors, int axis = 0);
Tensor stack(std::initializer_list<Tensor> tensors, int axis = 0);

}  // namespace bevel
