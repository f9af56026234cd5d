#include <bevel/ops/pointwise/detail/where_loops.h>

namespace bevel::pointwise {

template void where_kernel(Cuda, const kernel::Broadcast<3>&, const Tensor&, const Tensor&, const Tensor&,
                           const Tensor&);

}  // namespace bevel::pointwise
