#include <bevel/ops/loss/detail/library.h>
#include <bevel/ops/loss/iou.h>

namespace bevel::detail {

using formula::BoxOverlap;
using formula::Overlap;

template void launch_library_loss(Cuda, const BoxOverlap<Overlap::iou>&, const LossPass&);
template void launch_library_loss(Cuda, const BoxOverlap<Overlap::giou>&, const LossPass&);
template void launch_library_loss(Cuda, const BoxOverlap<Overlap::diou>&, const LossPass&);
template void launch_library_loss(Cuda, const BoxOverlap<Overlap::ciou>&, const LossPass&);

}  // namespace bevel::detail
