// Dropout (Srivastava et al. 2014), in the form that scales what it keeps.
#pragma once

#include <bevel/core/random.h>
#include <bevel/core/tensor.h>

namespace bevel {

// In training every element of x becomes 0 with probability p and is divided by 1 - p otherwise; else x itself. An
// element that was dropped is 0 even if it was NaN or infinite. p = 0 keeps all, p = 1 none. Floating; error unless
// 0 <= p <= 1. The mask is not kept: the backward pass draws it again. Differentiable any number of times.
Tensor dropout(const Tensor& x, double p, bool training = true, Generator& generator = default_generator());

}  // namespace bevel
