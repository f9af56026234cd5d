#include <bevel/ops/loss/detail/library_launch.h>
#include <bevel/ops/loss/huber.h>
#include <bevel/ops/loss/l1.h>
#include <bevel/ops/loss/mse.h>
#include <bevel/ops/loss/smooth_l1.h>

namespace bevel::detail {

template void launch_library_loss(const raw::OnStream&, const formula::SmoothL1&, const raw::LossPass&);
template void launch_library_loss(const raw::OnStream&, const formula::Huber&, const raw::LossPass&);
template void launch_library_loss(const raw::OnStream&, const formula::L1&, const raw::LossPass&);
template void launch_library_loss(const raw::OnStream&, const formula::Mse&, const raw::LossPass&);

}  // namespace bevel::detail
