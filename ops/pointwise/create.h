// New tensors with given elements. Every dtype unless something else is said; the elements are computed in double and
// converted. See also Tensor::zeros, Tensor::empty and Tensor::scalar.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

Tensor full(const Shape& shape, double value, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});

// Of the shape, dtype and device of x; without history.
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double value);

// start, start + step, ... up to but not including stop: shape [ceil((stop - start) / step)]. Element i is
// start + i * step. Error for step 0 or infinite arguments; empty where stop lies on the other side.
Tensor arange(double start, double stop, double step, TensorOptions options = {});
// 0, 1, ..., count - 1.
Tensor arange(std::int64_t count, TensorOptions options = {});
// `count` equally spaced values from start to stop, both included; start alone for count 1. Floating.
Tensor linspace(double start, double stop, std::int64_t count, TensorOptions options = {});
// The identity matrix [n, n].
Tensor eye(std::int64_t n, TensorOptions options = {});

}  // namespace bevel
