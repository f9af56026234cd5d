#include <bevel/ops/kernel/map.h>
#include <bevel/ops/pointwise/detail/unary_dispatch.h>

namespace bevel::pointwise {

void unary_kernel(Cpu backend, Algebraic list, const UnaryCall& call) {
  unary_dispatch(list, call, [backend](const auto&... arguments) { kernel::map(backend, arguments...); });
}

}  // namespace bevel::pointwise
