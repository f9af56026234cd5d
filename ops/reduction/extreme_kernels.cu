#include <bevel/ops/reduction/detail/extreme_kernels.h>
#include <bevel/ops/kernel/reduce.cuh>

namespace bevel::detail {

namespace {

template <class T>
__global__ void __launch_bounds__(reduce_threads)
    write_tie_weights(const T* in, ReduceStep step, const T* extreme, const std::int64_t* counts, T* weights) {
  gpu::begin_kernel();
  const std::int64_t numel = step.outputs() * step.reduced;
  const std::int64_t stride = std::int64_t{gridDim.x} * reduce_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * reduce_threads + threadIdx.x; i < numel; i += stride) {
    const std::int64_t output = i / step.inner / step.reduced * step.inner + i % step.inner;
    weights[i] = tie_weight(in[i], extreme[output], counts[output]);
  }
}

}  // namespace

void extreme_step(Cuda backend, bool minimum, const Tensor& in, const ReduceStep& step, const Tensor& out) {
  extreme_step_on(backend, minimum, in, step, out);
}

void arg_extreme_step(Cuda backend, bool minimum, const Tensor& in, const ReduceStep& step, const Tensor& out) {
  arg_extreme_step_on(backend, minimum, in, step, out);
}

void centred_square_step(Cuda backend, const Tensor& in, const ReduceStep& step, const Tensor& centre,
                         const Tensor& out, double divisor) {
  centred_square_step_on(backend, in, step, centre, out, divisor);
}

void tie_weights_step(Cuda backend, const Tensor& in, const ReduceStep& step, const Tensor& extreme,
                      const Tensor& weights) {
  if (in.numel() == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  const Tensor counts = count_ties(backend, in, step, extreme);
  const std::int64_t blocks = std::min<std::int64_t>((in.numel() + reduce_threads - 1) / reduce_threads, 1 << 20);
  visit_floating(in.dtype(), "max and min", [&]<class T>() {
    gpu::launch(write_tie_weights<T>,
                {.blocks = static_cast<unsigned>(blocks), .threads = reduce_threads, .stream = gpu::stream(backend)},
                "write_tie_weights", in.data<T>(), step, extreme.data<T>(), counts.data<std::int64_t>(),
                weights.data<T>());
  });
}

}  // namespace bevel::detail
