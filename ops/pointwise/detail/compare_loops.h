// Definitions of compare_kernels.h, for the sources that instantiate them: one for each backend.
#pragma once

#include <bevel/ops/kernel/map_backend.h>
#include <bevel/ops/pointwise/detail/compare_kernels.h>

namespace bevel::pointwise {

template <class Backend>
void compare_kernel(Backend backend, Compare op, const kernel::Broadcast<2>& plan, const Tensor& out, const Tensor& a,
                    const Tensor& b) {
  bool* const result = out.data<bool>();
  dispatch_compare(op, a, b, [&](const auto& f, const auto* x, const auto* y) {
    kernel::map_broadcast(backend, f, plan, result, x, y);
  });
}

template <class Backend>
void logic_kernel(Backend backend, bool both, const kernel::Broadcast<2>& plan, const Tensor& out, const Tensor& a,
                  const Tensor& b) {
  const bool* x = a.data<bool>();
  const bool* y = b.data<bool>();
  if (both)
    kernel::map_broadcast(backend, And{}, plan, out.data<bool>(), x, y);
  else
    kernel::map_broadcast(backend, Or{}, plan, out.data<bool>(), x, y);
}

}  // namespace bevel::pointwise
