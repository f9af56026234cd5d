// The reductions that reduce.h and reduce.cuh are instantiated for: one step each, of contiguous tensors.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/kernel/reduce.h>

namespace bevel::detail {

// out = sum / divisor. Floating to floating of any dtype, or integer to i64 (divisor unused).
void sum_step(Cpu, const Tensor& in, const ReduceStep& step, const Tensor& out, double divisor);
void sum_step(Cuda, const Tensor& in, const ReduceStep& step, const Tensor& out, double divisor);

// out = the greatest or least element, in in's dtype; NaN if there is one. Not bool.
void extreme_step(Cpu, bool minimum, const Tensor& in, const ReduceStep& step, const Tensor& out);
void extreme_step(Cuda, bool minimum, const Tensor& in, const ReduceStep& step, const Tensor& out);

// out (i64) = where along the reduced axis it first is. Not u8, not bool.
void arg_extreme_step(Cpu, bool minimum, const Tensor& in, const ReduceStep& step, const Tensor& out);
void arg_extreme_step(Cuda, bool minimum, const Tensor& in, const ReduceStep& step, const Tensor& out);

// weights (like in) = 1 / number of ties where `in` equals extreme[output], NaN included, else 0. Floating only.
void tie_weights_step(Cpu, const Tensor& in, const ReduceStep& step, const Tensor& extreme, const Tensor& weights);
void tie_weights_step(Cuda, const Tensor& in, const ReduceStep& step, const Tensor& extreme, const Tensor& weights);

// out = sum of (in - centre[output])^2 / divisor; centre is f64. Floating only.
void centred_square_step(Cpu, const Tensor& in, const ReduceStep& step, const Tensor& centre, const Tensor& out,
                         double divisor);
void centred_square_step(Cuda, const Tensor& in, const ReduceStep& step, const Tensor& centre, const Tensor& out,
                         double divisor);

}  // namespace bevel::detail
