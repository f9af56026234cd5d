// Elements picked by an index tensor, and the way back.
//
// Index tensors are i64 or i32, on the device of x, without history. An index outside 0 <= i < size is an Error; on
// CUDA finding that out waits for the device. In a captured step (core/capture.h) nothing waits: there such an index
// reads 0 and adds nothing, and one of the next calls of the step is the Error.
//
// All are differentiable any number of times. The way back is deterministic: the indices are sorted, stably, and each
// element of the result sums its own in their order. That costs O(K) on the CPU and a radix sort of K keys on CUDA, and
// an index that occurs m times is summed by one thread in m steps.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

// result[.., k, ..] = x[.., index[.., k, ..], ..] along `axis`. The index has x's rank, and x's sizes but for `axis`.
Tensor gather(const Tensor& x, int axis, const Tensor& index);

// Row index[k] of x along `axis` becomes row k of the result; the index has one axis. Rows of an embedding, labels of a
// batch.
Tensor index_select(const Tensor& x, int axis, const Tensor& index);

// Zeros with `size` elements along `axis`, to whose element index[.., k, ..] source[.., k, ..] is added, for every
// element of the source. Index and source have the same shape; floating source. The adjoint of gather.
Tensor scatter_add(const Tensor& source, int axis, const Tensor& index, std::int64_t size);

}  // namespace bevel
