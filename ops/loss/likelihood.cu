#include <bevel/ops/loss/bce_with_logits.h>
#include <bevel/ops/loss/detail/library_launch.h>
#include <bevel/ops/loss/poisson_nll.h>

namespace bevel::detail {

template void launch_library_loss(const raw::OnStream&, const formula::BceWithLogits&, const raw::LossPass&);
template void launch_library_loss(const raw::OnStream&, const formula::PoissonNll&, const raw::LossPass&);

}  // namespace bevel::detail
