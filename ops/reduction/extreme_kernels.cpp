#include <bevel/ops/reduction/detail/extreme_kernels.h>

namespace bevel::detail {

void extreme_step(Cpu backend, bool minimum, const Tensor& in, const ReduceStep& step, const Tensor& out) {
  extreme_step_on(backend, minimum, in, step, out);
}

void arg_extreme_step(Cpu backend, bool minimum, const Tensor& in, const ReduceStep& step, const Tensor& out) {
  arg_extreme_step_on(backend, minimum, in, step, out);
}

void centred_square_step(Cpu backend, const Tensor& in, const ReduceStep& step, const Tensor& centre, const Tensor& out,
                         double divisor) {
  centred_square_step_on(backend, in, step, centre, out, divisor);
}

void tie_weights_step(Cpu backend, const Tensor& in, const ReduceStep& step, const Tensor& extreme,
                      const Tensor& weights) {
  const Tensor counts = count_ties(backend, in, step, extreme);
  visit_floating(in.dtype(), "max and min", [&]<class T>() {
    const T* x = in.data<T>();
    const T* y = extreme.data<T>();
    const std::int64_t* count = counts.data<std::int64_t>();
    T* w = weights.data<T>();
    const std::int64_t grain = std::max<std::int64_t>(reduce_tile / std::max<std::int64_t>(step.inner, 1), 1);
    parallel_ranges(step.outer * step.reduced, grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        const std::int64_t output = row / step.reduced * step.inner;
        for (std::int64_t j = 0; j < step.inner; ++j) {
          const std::int64_t i = row * step.inner + j;
          w[i] = tie_weight(x[i], y[output + j], count[output + j]);
        }
      }
    });
  });
}

}  // namespace bevel::detail
