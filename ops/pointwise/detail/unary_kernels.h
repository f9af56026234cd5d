// Kernels of the unary operators f: out = dy * f^(order)(x), with dy = 1 for order 0.
//
// One overload for each list of unary_functors.h and backend, all defined through unary_dispatch.h.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/pointwise/detail/unary_functors.h>

#include <cstddef>

namespace bevel::pointwise {

inline constexpr int highest_order = 2;

// Operator number `index` of a list, with its parameters at `functor`. dy is undefined for order 0.
struct UnaryCall {
  std::size_t index;
  const void* functor;
  int order;
  const Tensor& out;
  const Tensor& dy;
  const Tensor& x;
};

void unary_kernel(Cpu, Algebraic, const UnaryCall& call);
void unary_kernel(Cuda, Algebraic, const UnaryCall& call);
void unary_kernel(Cpu, Exponential, const UnaryCall& call);
void unary_kernel(Cuda, Exponential, const UnaryCall& call);
void unary_kernel(Cpu, Smooth, const UnaryCall& call);
void unary_kernel(Cuda, Smooth, const UnaryCall& call);
void unary_kernel(Cpu, Periodic, const UnaryCall& call);
void unary_kernel(Cuda, Periodic, const UnaryCall& call);

}  // namespace bevel::pointwise
