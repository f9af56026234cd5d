#include <bevel/ops/pointwise/random_kernels.h>
#include <bevel/ops/kernel/map.cuh>

namespace bevel::pointwise {

void rand_kernel(Cuda backend, RandomState state, const Tensor& out) {
  visit_floating(out.dtype(), "rand", [&]<class T>() {
    using F = Uniform<compute_t<T>>;
    kernel::map_blocks<F::lanes>(backend, F{state}, out.numel(), out.data<T>());
  });
}

void randn_kernel(Cuda backend, RandomState state, const Tensor& out) {
  visit_floating(out.dtype(), "randn", [&]<class T>() {
    using F = Normal<compute_t<T>>;
    kernel::map_blocks<F::lanes>(backend, F{state}, out.numel(), out.data<T>());
  });
}

void randint_kernel(Cuda backend, RandomState state, std::int64_t low, std::uint64_t range, const Tensor& out) {
  kernel::map_blocks<2>(backend, Integers{state, low, range}, out.numel(), out.data<std::int64_t>());
}

void bernoulli_kernel(Cuda backend, RandomState state, std::uint64_t threshold, const Tensor& out) {
  const Below f{state, threshold};
  if (out.dtype() == boolean) return kernel::map_blocks<4>(backend, f, out.numel(), out.data<bool>());
  visit_floating(out.dtype(), "bernoulli",
                 [&]<class T>() { kernel::map_blocks<4>(backend, f, out.numel(), out.data<T>()); });
}

void dropout_kernel(Cuda backend, RandomState state, std::uint64_t threshold, double scale, const Tensor& out,
                    const Tensor& x) {
  visit_floating(out.dtype(), "dropout", [&]<class T>() {
    using C = compute_t<T>;
    const T* in = x.data<T>();
    kernel::map_blocks<4>(backend, Dropout<C>{{state, threshold}, static_cast<C>(scale)}, out.numel(), out.data<T>(),
                          in);
  });
}

}  // namespace bevel::pointwise
