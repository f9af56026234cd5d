// Pictures into columns and back, on CUDA.
#pragma once

#include <bevel/ops/conv2d/detail/conv.h>

namespace bevel::detail {

// columns[g, r, tap, l] = what `tap` of output pixel first + r sees in channel l of group g; 0 outside the picture.
// At most 2^31 elements of columns, and pictures of fewer than 2^30 pixels (Error).
void unfold(Cuda backend, const ConvShape& shape, const Tensor& input, std::int64_t first, std::int64_t rows,
            const Tensor& columns);

// The adjoint for whole pictures: each element of input_gradient, from picture `first` on, is the sum of the columns'
// elements that unfold would fill from it, in the order of the taps. Columns of half types are f32.
void fold(Cuda backend, const ConvShape& shape, const Tensor& columns, std::int64_t first, std::int64_t pictures,
          const Tensor& input_gradient);

// Rounds f32 elements to a half type.
void narrow(Cuda backend, const Tensor& from, const Tensor& to);

}  // namespace bevel::detail
