// Definitions of create_kernels.h, for the sources that instantiate them: one for each backend.
#pragma once

#include <bevel/ops/kernel/map_backend.h>
#include <bevel/ops/pointwise/detail/create_kernels.h>

namespace bevel::pointwise {

template <class Backend>
void ramp_kernel(Backend backend, const Ramp& ramp, const Tensor& out) {
  visit(out.dtype(), [&]<class T>() {
    kernel::map_blocks<kernel::pack_lanes<double>>(backend, kernel::EachIndex<kernel::pack_lanes<double>, Ramp>{ramp},
                                                   out.numel(), out.data<T>());
  });
}

template <class Backend>
void fill_kernel(Backend backend, double value, const Tensor& out) {
  visit(out.dtype(), [&]<class T>() {
    constexpr int lanes = kernel::pack_lanes<T>;
    const Constant<T> constant{static_cast<T>(static_cast<compute_t<T>>(value))};
    kernel::map_blocks<lanes>(backend, kernel::EachIndex<lanes, Constant<T>>{constant}, out.numel(), out.data<T>());
  });
}

template <class Backend>
void eye_kernel(Backend backend, std::int64_t n, const Tensor& out) {
  visit(out.dtype(), [&]<class T>() {
    kernel::map_blocks<1>(backend, kernel::EachIndex<1, Diagonal>{{n + 1}}, out.numel(), out.data<T>());
  });
}

template <class Backend>
void add_scaled_kernel(Backend backend, double alpha, const Tensor& t, const Tensor& other) {
  visit_floating(t.dtype(), "add_", [&]<class T>() {
    const T* before = t.data<T>();
    const T* addend = other.data<T>();
    const AddScaled<compute_t<T>> f{static_cast<compute_t<T>>(alpha)};
    kernel::map(backend, f, t.numel(), t.data<T>(), before, addend);
  });
}

}  // namespace bevel::pointwise
