#include <bevel/ops/pointwise/detail/compare_loops.h>

namespace bevel::pointwise {

template void compare_kernel(Cuda, Compare, const kernel::Broadcast<2>&, const Tensor&, const Tensor&, const Tensor&);
template void logic_kernel(Cuda, bool, const kernel::Broadcast<2>&, const Tensor&, const Tensor&, const Tensor&);

}  // namespace bevel::pointwise
