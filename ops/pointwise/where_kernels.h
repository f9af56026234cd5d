// Kernels of where.h: elements are moved as bits, so only their size matters.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/kernel/broadcast.h>

namespace bevel::pointwise {

void where_kernel(Cpu, const kernel::Broadcast<3>& plan, const Tensor& out, const Tensor& condition, const Tensor& a,
                  const Tensor& b);
void where_kernel(Cuda, const kernel::Broadcast<3>& plan, const Tensor& out, const Tensor& condition, const Tensor& a,
                  const Tensor& b);

struct Choose {
  template <class T>
  BEVEL_HD T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

// `move` is called with an unsigned type of the size of the elements.
template <class Move>
void dispatch_size(Dtype dtype, const Move& move) {
  switch (size_of(dtype)) {
    case 1:
      return move.template operator()<std::uint8_t>();
    case 2:
      return move.template operator()<std::uint16_t>();
    case 4:
      return move.template operator()<std::uint32_t>();
    default:
      return move.template operator()<std::uint64_t>();
  }
}

}  // namespace bevel::pointwise
