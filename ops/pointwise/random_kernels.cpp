#include <bevel/ops/pointwise/detail/random_loops.h>

namespace bevel::pointwise {

template void rand_kernel(Cpu, RandomState, const Tensor&);
template void randn_kernel(Cpu, RandomState, const Tensor&);
template void randint_kernel(Cpu, RandomState, std::int64_t, std::uint64_t, const Tensor&);
template void bernoulli_kernel(Cpu, RandomState, std::uint64_t, const Tensor&);
template void dropout_kernel(Cpu, RandomState, std::uint64_t, double, const Tensor&, const Tensor&);

}  // namespace bevel::pointwise
