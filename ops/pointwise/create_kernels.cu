#include <bevel/ops/pointwise/detail/create_loops.h>

namespace bevel::pointwise {

template void ramp_kernel(Cuda, const Ramp&, const Tensor&);
template void fill_kernel(Cuda, double, const Tensor&);
template void eye_kernel(Cuda, std::int64_t, const Tensor&);
template void add_scaled_kernel(Cuda, double, const Tensor&, const Tensor&);

}  // namespace bevel::pointwise
