#include <bevel/ops/pointwise/detail/random_loops.h>

namespace bevel::pointwise {

template void rand_kernel(Cuda, RandomState, const Tensor&);
template void randn_kernel(Cuda, RandomState, const Tensor&);
template void randint_kernel(Cuda, RandomState, std::int64_t, std::uint64_t, const Tensor&);
template void bernoulli_kernel(Cuda, RandomState, std::uint64_t, const Tensor&);
template void dropout_kernel(Cuda, RandomState, std::uint64_t, double, const Tensor&, const Tensor&);

}  // namespace bevel::pointwise
