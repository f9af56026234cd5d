#include <bevel/ops/pointwise/detail/compare_loops.h>

namespace bevel::pointwise {

template void compare_kernel(Cpu, Compare, const kernel::Broadcast<2>&, const Tensor&, const Tensor&, const Tensor&);
template void logic_kernel(Cpu, bool, const kernel::Broadcast<2>&, const Tensor&, const Tensor&, const Tensor&);

}  // namespace bevel::pointwise
