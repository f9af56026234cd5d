#include <bevel/ops/kernel/map.h>
#include <bevel/ops/pointwise/compare_kernels.h>

namespace bevel::pointwise {

void compare_kernel(Cpu backend, Compare op, const kernel::Broadcast<2>& plan, const Tensor& out, const Tensor& a,
                    const Tensor& b) {
  bool* const result = out.data<bool>();
  dispatch_compare(op, a, b, [&](const auto& f, const auto* x, const auto* y) {
    kernel::map_broadcast(backend, f, plan, result, x, y);
  });
}

void logic_kernel(Cpu backend, bool both, const kernel::Broadcast<2>& plan, const Tensor& out, const Tensor& a,
                  const Tensor& b) {
  const bool* x = a.data<bool>();
  const bool* y = b.data<bool>();
  if (both)
    kernel::map_broadcast(backend, And{}, plan, out.data<bool>(), x, y);
  else
    kernel::map_broadcast(backend, Or{}, plan, out.data<bool>(), x, y);
}

}  // namespace bevel::pointwise
