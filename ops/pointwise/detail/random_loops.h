// Definitions of random_kernels.h, for the sources that instantiate them: one for each backend.
#pragma once

#include <bevel/ops/kernel/map_backend.h>
#include <bevel/ops/pointwise/detail/random_kernels.h>

namespace bevel::pointwise {

template <class Backend>
void rand_kernel(Backend backend, RandomState state, const Tensor& out) {
  visit_floating(out.dtype(), "rand", [&]<class T>() {
    using F = Uniform<compute_t<T>>;
    kernel::map_blocks<F::lanes>(backend, F{state}, out.numel(), out.data<T>());
  });
}

template <class Backend>
void randn_kernel(Backend backend, RandomState state, const Tensor& out) {
  visit_floating(out.dtype(), "randn", [&]<class T>() {
    using F = Normal<compute_t<T>>;
    kernel::map_blocks<F::lanes>(backend, F{state}, out.numel(), out.data<T>());
  });
}

template <class Backend>
void randint_kernel(Backend backend, RandomState state, std::int64_t low, std::uint64_t range, const Tensor& out) {
  kernel::map_blocks<2>(backend, Integers{state, low, range}, out.numel(), out.data<std::int64_t>());
}

template <class Backend>
void bernoulli_kernel(Backend backend, RandomState state, std::uint64_t threshold, const Tensor& out) {
  const Below f{state, threshold};
  if (out.dtype() == boolean) return kernel::map_blocks<4>(backend, f, out.numel(), out.data<bool>());
  visit_floating(out.dtype(), "bernoulli",
                 [&]<class T>() { kernel::map_blocks<4>(backend, f, out.numel(), out.data<T>()); });
}

template <class Backend>
void dropout_kernel(Backend backend, RandomState state, std::uint64_t threshold, double scale, const Tensor& out,
                    const Tensor& x) {
  visit_floating(out.dtype(), "dropout", [&]<class T>() {
    using C = compute_t<T>;
    const T* in = x.data<T>();
    kernel::map_blocks<4>(backend, Dropout<C>{{state, threshold}, static_cast<C>(scale)}, out.numel(), out.data<T>(),
                          in);
  });
}

}  // namespace bevel::pointwise
