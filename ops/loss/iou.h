// Losses of boxes in corner form (x1, y1, x2, y2), by their overlap: IoU, GIoU (Rezatofighi et al. 2019), DIoU and CIoU
// (Zheng et al. 2020). With I, U, C the areas of intersection, union and enclosing box:
//
//   iou_loss    1 - I / U
//   giou_loss   1 - I / U + (C - U) / C
//   diou_loss   1 - I / U + (distance of the centres / diagonal of the enclosing box)²
//   ciou_loss   the same + alpha v,  v = 4/π² (atan(w/h) of the target - that of the input)²,  alpha = v / (1 - I/U +
//   v)
//
// The contract of smooth_l1.h holds, by rows: input and target have shape [..., 4], `none` gives one loss a box, a mean
// divides by the number of boxes, a weight is one a box ([N] or [N, 1] against [N, 4]). What is particular:
// - A box without area, or with x2 < x1 or y2 < y1, counts as empty: its overlap is 0. Where a denominator is 0 (both
//   boxes empty, an enclosing box without area or diagonal) the term counts as 0: two equal points have loss 1. Nothing
//   gives NaN but NaN and infinities, and sides beyond the range where areas are finite (1e19 in f32).
// - Where edges coincide the derivative is the mean of those from either side, so that a perfect box is left alone.
// - alpha counts as a constant in derivatives, as its authors and other libraries have it.
// - iou_loss has no gradient between boxes that do not overlap; the others have.
#pragma once

#include <bevel/ops/loss/formula.h>
#include <bevel/ops/loss/options.h>
#include <bevel/ops/loss/row.h>

namespace bevel {

Tensor iou_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
Tensor giou_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
Tensor diou_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
Tensor ciou_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});

namespace formula {

enum class Overlap { iou, giou, diou, ciou };

// One axis of two boxes. d_* are derivatives with respect to the input's lower (0) and upper (1) edge.
template <class X>
struct Extent {
  X size;  // of the input
  X target_size;
  X common;
  X hull;
  X d_size[2];
  X d_common[2];
  X d_hull[2];
};

template <class X>
BEVEL_HD X quotient_or_0(X a, X b) {
  return select(value_of(b) == 0, X(0), a / b);
}

// 1 where a < b, 1/2 where they are equal, else 0.
template <class X>
BEVEL_HD X is_below(X a, X b) {
  return select(value_of(a) < value_of(b), X(1), select(value_of(a) == value_of(b), X(0.5), X(0)));
}

template <class X>
BEVEL_HD Extent<X> extent(X low, X high, X target_low, X target_high) {
  Extent<X> e;
  const X zero = X(0);
  e.size = max(high - low, zero);
  e.target_size = max(target_high - target_low, zero);
  e.common = max(min(high, target_high) - max(low, target_low), zero);
  e.hull = max(max(high, target_high) - min(low, target_low), zero);
  const X one = X(1);
  const X has_size = select(value_of(e.size) > 0, one, zero);
  const X has_common = select(value_of(e.common) > 0, one, zero);
  const X has_hull = select(value_of(e.hull) > 0, one, zero);
  e.d_size[0] = -has_size;
  e.d_size[1] = has_size;
  e.d_common[0] = -(has_common * is_below(target_low, low));
  e.d_common[1] = has_common * is_below(high, target_high);
  e.d_hull[0] = -(has_hull * is_below(low, target_low));
  e.d_hull[1] = has_hull * is_below(target_high, high);
  return e;
}

// atan(w / h) for w, h >= 0; 0 for 0, 0.
template <class X>
BEVEL_HD X aspect_angle(X w, X h) {
  constexpr double half_pi = 1.57079632679489661923;
  const bool is_wide = value_of(w) > value_of(h);
  const X angle = atan(quotient_or_0(select(is_wide, h, w), select(is_wide, w, h)));
  return select(is_wide, half_pi - angle, angle);
}

template <Overlap overlap>
struct BoxOverlap {
  static constexpr bool is_symmetric = true;

  template <class X>
  BEVEL_HD X operator()(const Row<X>& input, const Row<X>& target) const {
    return with_d_input(input, target).value;
  }

  template <class X>
  BEVEL_HD RowLoss<X> with_d_input(const Row<X>& input, const Row<X>& target) const {
    const Extent<X> axis[2] = {extent(input[0], input[2], target[0], target[2]),
                               extent(input[1], input[3], target[1], target[3])};
    const X area = axis[0].size * axis[1].size;
    const X common = axis[0].common * axis[1].common;
    const X all = area + axis[0].target_size * axis[1].target_size - common;
    const X iou = quotient_or_0(common, all);
    const X per_all = quotient_or_0(X(1), all);
    RowLoss<X> loss;
    loss.value = 1 - iou;
    Row<X> d_all;  // of the union
    for (int i = 0; i < 4; ++i) {
      const int a = i % 2;  // the axis
      const int s = i / 2;  // the lower or the upper edge
      const X d_common = axis[a].d_common[s] * axis[1 - a].common;
      d_all[i] = axis[a].d_size[s] * axis[1 - a].size - d_common;
      loss.d_input[i] = per_all * (iou * d_all[i] - d_common);
    }
    if constexpr (overlap == Overlap::giou) add_hull(loss, axis, all, d_all);
    if constexpr (overlap == Overlap::diou || overlap == Overlap::ciou) add_distance(loss, axis, input, target);
    if constexpr (overlap == Overlap::ciou) add_aspect(loss, axis, iou);
    return loss;
  }

 private:
  // (C - U) / C
  template <class X>
  BEVEL_HD static void add_hull(RowLoss<X>& loss, const Extent<X> (&axis)[2], X all, const Row<X>& d_all) {
    const X hull = axis[0].hull * axis[1].hull;
    const X per_hull = quotient_or_0(X(1), hull);
    const X filled = quotient_or_0(all, hull);
    loss.value = loss.value + quotient_or_0(hull - all, hull);
    for (int i = 0; i < 4; ++i) {
      const X d_hull = axis[i % 2].d_hull[i / 2] * axis[1 - i % 2].hull;
      loss.d_input[i] = loss.d_input[i] + per_hull * (filled * d_hull - d_all[i]);
    }
  }

  template <class X>
  BEVEL_HD static void add_distance(RowLoss<X>& loss, const Extent<X> (&axis)[2], const Row<X>& input,
                                    const Row<X>& target) {
    const X diagonal = axis[0].hull * axis[0].hull + axis[1].hull * axis[1].hull;
    const X per_diagonal = quotient_or_0(X(1), diagonal);
    const X offset[2] = {(input[0] + input[2]) - (target[0] + target[2]),
                         (input[1] + input[3]) - (target[1] + target[3])};  // twice that of the centres
    const X penalty = quotient_or_0(0.25 * (offset[0] * offset[0] + offset[1] * offset[1]), diagonal);
    loss.value = loss.value + penalty;
    for (int i = 0; i < 4; ++i) {
      const X d_diagonal = 2 * (axis[i % 2].hull * axis[i % 2].d_hull[i / 2]);
      loss.d_input[i] = loss.d_input[i] + per_diagonal * (0.5 * offset[i % 2] - penalty * d_diagonal);
    }
  }

  template <class X>
  BEVEL_HD static void add_aspect(RowLoss<X>& loss, const Extent<X> (&axis)[2], X iou) {
    constexpr double four_over_pi2 = 0.40528473456935108578;
    const X w = axis[0].size;
    const X h = axis[1].size;
    const X difference = aspect_angle(axis[0].target_size, axis[1].target_size) - aspect_angle(w, h);
    const X v = four_over_pi2 * difference * difference;
    const X alpha = X(value_of(quotient_or_0(v, 1 - iou + v)));
    loss.value = loss.value + alpha * v;
    const X slope = quotient_or_0(-2 * four_over_pi2 * alpha * difference, w * w + h * h);
    const X d_size[2] = {slope * h, -(slope * w)};
    for (int i = 0; i < 4; ++i) loss.d_input[i] = loss.d_input[i] + axis[i % 2].d_size[i / 2] * d_size[i % 2];
  }
};

}  // namespace formula

}  // namespace bevel
