// Copies between half types and float on the CPU.
#pragma once

#include <bevel/core/parallel.h>
#include <bevel/core/tensor.h>

namespace bevel::detail {

template <class From, class To>
void convert(const From* from, To* to, std::int64_t count) {
  parallel_ranges(count, 1 << 15, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(static_cast<float>(from[i]));
  });
}

// An f32 copy of a tensor of a half type.
inline Tensor widened(const Tensor& x) {
  const Tensor wide = Tensor::empty(x.shape());
  if (x.dtype() == bf16)
    convert(x.data<bfloat16>(), wide.data<float>(), x.numel());
  else
    convert(x.data<float16>(), wide.data<float>(), x.numel());
  return wide;
}

// Rounds f32 elements into a tensor of a half type.
inline void narrow(const Tensor& wide, const Tensor& to) {
  if (to.dtype() == bf16)
    convert(wide.data<float>(), to.data<bfloat16>(), to.numel());
  else
    convert(wide.data<float>(), to.data<float16>(), to.numel());
}

}  // namespace bevel::detail
