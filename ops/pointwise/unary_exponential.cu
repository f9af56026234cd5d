#include <bevel/ops/pointwise/detail/unary_dispatch.h>
#include <bevel/ops/kernel/map.cuh>

namespace bevel::pointwise {

void unary_kernel(Cuda backend, Exponential list, const UnaryCall& call) {
  unary_dispatch(list, call, [backend](const auto&... arguments) { kernel::map(backend, arguments...); });
}

}  // namespace bevel::pointwise
