#include <bevel/ops/loss/detail/library_launch.h>
#include <bevel/ops/loss/iou.h>

namespace bevel::detail {

using formula::BoxOverlap;
using formula::Overlap;

template void launch_library_loss(const raw::OnStream&, const BoxOverlap<Overlap::iou>&, const raw::LossPass&);
template void launch_library_loss(const raw::OnStream&, const BoxOverlap<Overlap::giou>&, const raw::LossPass&);
template void launch_library_loss(const raw::OnStream&, const BoxOverlap<Overlap::diou>&, const raw::LossPass&);
template void launch_library_loss(const raw::OnStream&, const BoxOverlap<Overlap::ciou>&, const raw::LossPass&);

}  // namespace bevel::detail
