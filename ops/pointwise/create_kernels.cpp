#include <bevel/ops/pointwise/detail/create_loops.h>

namespace bevel::pointwise {

template void ramp_kernel(Cpu, const Ramp&, const Tensor&);
template void fill_kernel(Cpu, double, const Tensor&);
template void eye_kernel(Cpu, std::int64_t, const Tensor&);
template void add_scaled_kernel(Cpu, double, const Tensor&, const Tensor&);

}  // namespace bevel::pointwise
