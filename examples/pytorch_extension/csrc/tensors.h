// What the operators share: from PyTorch's tensors to what Bevel's kernels take.
#pragma once

#include <ATen/ATen.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <bevel/core/dtype.h>
#include <torch/library.h>

namespace bevel_torch {

inline bevel::Dtype dtype_of(const at::Tensor& tensor, const char* op) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return bevel::f32;
    case at::kDouble:
      return bevel::f64;
    case at::kBFloat16:
      return bevel::bf16;
    case at::kHalf:
      return bevel::f16;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, '"', op, "\" not implemented for '", toString(tensor.scalar_type()), "'");
  }
}

inline at::ScalarType compute_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

inline void* data(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}
inline const void* const_data(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

// Dense, in the order of axes in which the tensor lies already where that is one of the usual ones.
inline at::Tensor dense(const at::Tensor& tensor) {
  return tensor.contiguous(tensor.suggest_memory_format());
}
inline at::Tensor dense_like(const at::Tensor& tensor, const at::Tensor& other) {
  return tensor.contiguous(other.suggest_memory_format());
}

// Whether the tensor is memory of the CPU or a GPU as it stands there, not something that records or transforms what is
// done to it, or stands for other values than its memory holds.
inline bool is_plain(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet others(
      {c10::DispatchKey::Negative, c10::DispatchKey::Conjugate, c10::DispatchKey::ZeroTensor});
  return (tensor.is_cuda() || tensor.is_cpu()) && !at::isTensorSubclassLike(tensor) &&
         !tensor.key_set().has_any(others);
}

}  // namespace bevel_torch
