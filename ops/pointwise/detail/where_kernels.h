// Kernels of where.h: elements are moved as bits, so only their size matters.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/kernel/broadcast.h>

namespace bevel::pointwise {

template <class Backend>
void where_kernel(Backend backend, const kernel::Broadcast<3>& plan, const Tensor& out, const Tensor& condition,
                  const Tensor& a, const Tensor& b);

// The condition is read as a byte, 0 or 1, and becomes a mask: g++ does not vectorise a choice by bool.
struct Choose {
  template <class T>
  BEVEL_HD T operator()(std::uint8_t condition, T a, T b) const {
    const T mask = static_cast<T>(T(0) - static_cast<T>(condition));
    return static_cast<T>((a & mask) | (b & static_cast<T>(~mask)));
  }
};

}  // namespace bevel::pointwise
