#include <bevel/ops/reduction/detail/sum_kernels.h>
#include <bevel/ops/kernel/reduce.cuh>

namespace bevel::detail {

void sum_step(Cuda backend, const Tensor& in, const ReduceStep& step, const Tensor& out, double divisor) {
  sum_step_on(backend, in, step, out, divisor);
}

}  // namespace bevel::detail
