// Kernels of cast.h. Half types convert from and to f32 only.
#pragma once

#include <bevel/core/tensor.h>

#include <type_traits>

namespace bevel::pointwise {

void cast_kernel(Cpu, const Tensor& out, const Tensor& x);
void cast_kernel(Cuda, const Tensor& out, const Tensor& x);

template <class To>
struct Convert {
  template <class From>
  BEVEL_HD To operator()(From x) const {
    if constexpr (std::is_same_v<To, bool>)
      return x != From(0);
    else
      return static_cast<To>(x);
  }
};

// `run` is called with both element types.
template <class Run>
void dispatch_cast(Dtype from, Dtype to, const Run& run) {
  visit(from, [&]<class From>() {
    visit(to, [&]<class To>() {
      constexpr bool narrow = is_half(dtype_of<From>) || is_half(dtype_of<To>);
      constexpr bool with_float = std::is_same_v<From, float> || std::is_same_v<To, float>;
      if constexpr (!std::is_same_v<From, To> && (!narrow || with_float)) run.template operator()<From, To>();
    });
  });
}

}  // namespace bevel::pointwise
