#include <bevel/ops/loss/detail/library.h>
#include <bevel/ops/loss/iou.h>

namespace bevel {

using formula::BoxOverlap;
using formula::Overlap;

Tensor iou_loss(const Tensor& input, const Tensor& target, const LossOptions& options) {
  return detail::library_loss("iou_loss", BoxOverlap<Overlap::iou>{}, input, target, options);
}

Tensor giou_loss(const Tensor& input, const Tensor& target, const LossOptions& options) {
  return detail::library_loss("giou_loss", BoxOverlap<Overlap::giou>{}, input, target, options);
}

Tensor diou_loss(const Tensor& input, const Tensor& target, const LossOptions& options) {
  return detail::library_loss("diou_loss", BoxOverlap<Overlap::diou>{}, input, target, options);
}

Tensor ciou_loss(const Tensor& input, const Tensor& target, const LossOptions& options) {
  return detail::library_loss("ciou_loss", BoxOverlap<Overlap::ciou>{}, input, target, options);
}

}  // namespace bevel
