#include <bevel/ops/loss/detail/library.h>
#include <bevel/ops/loss/huber.h>
#include <bevel/ops/loss/l1.h>
#include <bevel/ops/loss/mse.h>
#include <bevel/ops/loss/smooth_l1.h>

namespace bevel::detail {

template void launch_library_loss(Cuda, const formula::SmoothL1&, const LossPass&);
template void launch_library_loss(Cuda, const formula::Huber&, const LossPass&);
template void launch_library_loss(Cuda, const formula::L1&, const LossPass&);
template void launch_library_loss(Cuda, const formula::Mse&, const LossPass&);

}  // namespace bevel::detail
