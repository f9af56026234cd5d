// sum_step for either backend; included once by g++ and once by nvcc.
#pragma once

#include <bevel/ops/reduction/detail/kernels.h>

namespace bevel::detail {

template <class Backend>
void sum_step_on(Backend backend, const Tensor& in, const ReduceStep& step, const Tensor& out, double divisor) {
  visit(in.dtype(), [&]<class T>() {
    if constexpr (is_floating(dtype_of<T>))
      reduce(backend, in.data<T>(), step, SumReducer<T>{}, FloatStore{out.raw(), out.dtype(), divisor});
    else
      reduce(backend, in.data<T>(), step, SumReducer<T>{}, PlainStore<std::int64_t>{out.data<std::int64_t>()});
  });
}

}  // namespace bevel::detail
