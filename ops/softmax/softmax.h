// Softmax and its relatives along one axis. Floating tensors of at least one axis; half types are computed in f32.
// All subtract the greatest element first, so nothing overflows, and are differentiable any number of times.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/reduction/sum.h>

namespace bevel {

// exp(x) / sum of exp(x). NaN along the whole axis where x has a NaN or +inf, or is -inf throughout.
Tensor softmax(const Tensor& x, int axis = -1);

// log(softmax(x)), accurate where softmax is tiny.
Tensor log_softmax(const Tensor& x, int axis = -1);

// log of the sum of exp(x); the axis goes, or stays with size 1. -inf for no elements or -inf throughout, +inf where
// there is a +inf, NaN where there is a NaN.
Tensor logsumexp(const Tensor& x, int axis = -1, ReduceOptions options = {});

}  // namespace bevel
