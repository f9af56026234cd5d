// Half copies: a parameter of f32 beside a copy of it in bf16 or f16, kept until the parameter changes.
//
// Whoever computes in half precision asks for the copy, and makes and keeps it where there is none. An optimiser that
// changes the parameter writes the copy in the same pass, so in training it is made once.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

// The kept copy of `parameter` in `dtype`; undefined where there is none, or where the parameter has changed since.
Tensor find_half_copy(const Tensor& parameter, Dtype dtype);

// Keeps `copy`, of the parameter's shape and device, with its present elements; an older copy is let go. `convert`
// makes the elements of `copy` from those of the parameter: a captured step (capture.h) calls it if the parameter was
// changed between two calls.
void keep_half_copy(const Tensor& parameter, const Tensor& copy, void (*convert)(const Tensor& from, const Tensor& to));

namespace detail {

struct HalfCopy {
  Tensor copy;
  const Buffer* source = nullptr;  // the parameter's buffer and version when the copy was written
  std::uint64_t version = 0;
  void (*convert)(const Tensor& from, const Tensor& to) = nullptr;
};

// For who writes the copy together with the parameter: the copy, of any age, or undefined; and that it is now written.
Tensor half_copy_to_write(const Tensor& parameter);
void half_copy_written(const Tensor& parameter);
// Converts again if the kept copy is out of date.
void refresh_half_copy(const Tensor& parameter);

}  // namespace detail
}  // namespace bevel
