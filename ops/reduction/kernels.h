// The reductions that reduce.h and reduce.cuh are instantiated for: one step each, of contiguous tensors.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/kernel/reduce.h>

namespace bevel::detail {

// out = sum / divisor. Floating to floating of any dtype, or integer to i64 (divisor unused).
void sum_step(Cpu, const Tensor& in, const ReduceStep& step, const Tensor& out, double divisor);
void sum_step(Cuda, const Tensor& in, const ReduceStep& step, const Tensor& out, double divisor);

}  // namespace bevel::detail
