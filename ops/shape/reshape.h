// The same elements under another shape: views, no copies.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

// A view with history. One size may be -1: it becomes what is left. Error unless the element counts agree.
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes);
Tensor reshape(const Tensor& x, const Shape& shape);

// Axes first..last become one; a rank-0 tensor becomes [1].
Tensor flatten(const Tensor& x, int first = 0, int last = -1);

// Drops `axis`, whose size must be 1; without an axis, all axes of size 1.
Tensor squeeze(const Tensor& x, int axis);
Tensor squeeze(const Tensor& x);

// A new axis of size 1 in front of `axis`; -1 puts it at the end.
Tensor unsqueeze(const Tensor& x, int axis);

}  // namespace bevel
