#include <bevel/ops/loss/bce_with_logits.h>
#include <bevel/ops/loss/detail/library.h>
#include <bevel/ops/loss/poisson_nll.h>

namespace bevel::detail {

template void launch_library_loss(Cuda, const formula::BceWithLogits&, const LossPass&);
template void launch_library_loss(Cuda, const formula::PoissonNll&, const LossPass&);

}  // namespace bevel::detail
