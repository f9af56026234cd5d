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
//   boxes empty, an enclosing box without area or diagonal) the term counts as 0: two equal points have loss 1. An area
//   below the normal numbers (sides of 1e-19 in f32) counts as 0. Nothing gives NaN but NaN and infinities, and sides
//   beyond the range where areas are finite (1e19 in f32).
// - On CUDA in f32 a quotient is within one unit in the last place: common / union and its kin are refined approximate
//   reciprocals, not divisions. Derivatives use the reciprocals unrefined, also within one unit.
// - Where edges coincide the derivative is the mean of those from either side, so that a perfect box is left alone.
// - alpha counts as a constant in derivatives, as its authors and other libraries have it.
// - iou_loss has no gradient between boxes that do not overlap; the others have.
#pragma once

#include <bevel/ops/loss/formula.h>
#include <bevel/ops/loss/options.h>
#include <bevel/ops/loss/row.h>

#include <limits>
#include <type_traits>

namespace bevel {

Tensor iou_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
Tensor giou_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
Tensor diou_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
Tensor ciou_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});

namespace formula {

enum class Overlap { iou, giou, diou, ciou };

// a / b and 1 / b. Both are 0 where b is not a normal number above 0: what is that small has no area.
template <class X>
struct Share {
  X of;
  X per;
  X whole;  // 1, or 0 there
};

template <class X>
BEVEL_HD Share<X> share(X a, X b) {
  using T = decltype(value_of(b));
  const bool is_none = value_of(b) < std::numeric_limits<T>::min();
  const X zero = X(0);
  const X per = select(is_none, zero, reciprocal(b));
  return {select(is_none, zero, quotient(a, b, per)), per, select(is_none, zero, X(1))};
}

// One axis of two boxes.
template <class X>
struct Extent {
  X size;  // of the input
  X target_size;
  X common;
  X hull;
  X has_size;    // 1 where size > 0, else 0
  X has_common;  // the same of common
  // 1 where the input's edge bounds the common part, 0 where it bounds the hull, 1/2 where both boxes have that edge:
  // the derivative there is the mean of those from either side.
  X lower;
  X upper;
};

template <class X>
BEVEL_HD Extent<X> extent(X low, X high, X target_low, X target_high) {
  const X zero = X(0);
  Extent<X> e;
  e.size = max(high - low, zero);
  e.target_size = max(target_high - target_low, zero);
  e.common = max(min(high, target_high) - max(low, target_low), zero);
  e.hull = max(max(high, target_high) - min(low, target_low), zero);
  e.has_size = is_positive(e.size);
  e.has_common = is_positive(e.common);
  e.lower = unit_step(low - target_low);
  e.upper = unit_step(target_high - high);
  return e;
}

// atan(target_w / target_h) - atan(w / h) of sizes, as one angle; 0 / 0 counts as 0.
template <class X>
BEVEL_HD X aspect_difference(X target_w, X target_h, X w, X h) {
  constexpr double half_pi = 1.57079632679489661923;
  const X one = X(1);
  const X th = select(value_of(target_w) + value_of(target_h) == 0, one, target_h);
  const X ih = select(value_of(w) + value_of(h) == 0, one, h);
  const X sine = target_w * ih - w * th;  // both times the same positive number
  const X cosine = th * ih + target_w * w;
  const auto s = value_of(sine);
  const auto c = value_of(cosine);
  const bool is_steep = value_of(abs(sine)) > c;
  const X below = select(is_steep, sine, cosine);
  using T = std::remove_cv_t<decltype(s)>;
  const X divisor = select(value_of(abs(below)) < std::numeric_limits<T>::min(), one, below);
  const X angle = atan_of_fraction(quotient(select(is_steep, cosine, sine), divisor, reciprocal(divisor)));
  return select(is_steep, select(s > 0, X(half_pi), X(-half_pi)) - angle, angle);
}

// How a loss changes with the edges of the input, by the derivatives S, C, H by the size, the common part and the hull
// of an axis: moving
//   the lower edge by  -S - lower C - (1 - lower) H     the upper edge by  S + upper C + (1 - upper) H.
// So everything adds up in two numbers an axis: `out` = S + H and `in` = H - C.
template <class X>
struct EdgeSlopes {
  X out[2];
  X in[2];
};

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
    const X common = axis[0].common * axis[1].common;
    const X all = axis[0].size * axis[1].size + axis[0].target_size * axis[1].target_size - common;
    const Share<X> iou = share(common, all);
    RowLoss<X> loss;
    loss.value = 1 - iou.of;
    X by_all = iou.of * iou.per;               // derivative by the union; by the intersection alone it is -1 / union
    X by_hull = X(0);                          // by the area of the hull
    if constexpr (overlap == Overlap::giou) {  // + (hull - union) / hull
      const Share<X> filled = share(all, axis[0].hull * axis[1].hull);
      loss.value = loss.value + (filled.whole - filled.of);
      by_all = by_all - filled.per;
      by_hull = filled.per * filled.of;
    }
    EdgeSlopes<X> slopes;
    for (int a = 0; a < 2; ++a) {
      const Extent<X>& other = axis[1 - a];
      slopes.out[a] = axis[a].has_size * other.size * by_all;
      slopes.in[a] = axis[a].has_common * other.common * (by_all + iou.per);
      if constexpr (overlap == Overlap::giou) {
        slopes.out[a] = multiply_add(other.hull, by_hull, slopes.out[a]);
        slopes.in[a] = multiply_add(other.hull, by_hull, slopes.in[a]);
      }
    }
    X shift[2] = {X(0), X(0)};  // what both edges of an axis have in common
    if constexpr (overlap == Overlap::diou || overlap == Overlap::ciou)
      add_distance(loss, slopes, shift, axis, input, target);
    if constexpr (overlap == Overlap::ciou) add_aspect(loss, slopes, axis, iou.of);
    for (int a = 0; a < 2; ++a) {
      loss.d_input[a] = multiply_add(axis[a].lower, slopes.in[a], shift[a] - slopes.out[a]);
      loss.d_input[a + 2] = multiply_add(-axis[a].upper, slopes.in[a], shift[a] + slopes.out[a]);
    }
    return loss;
  }

 private:
  template <class X>
  BEVEL_HD static void add_distance(RowLoss<X>& loss, EdgeSlopes<X>& slopes, X (&shift)[2], const Extent<X> (&axis)[2],
                                    const Row<X>& input, const Row<X>& target) {
    const X diagonal = multiply_add(axis[0].hull, axis[0].hull, axis[1].hull * axis[1].hull);
    const X x = (input[0] + input[2]) - (target[0] + target[2]);  // twice what the centres are apart
    const X y = (input[1] + input[3]) - (target[1] + target[3]);
    const Share<X> penalty = share(0.25 * multiply_add(x, x, y * y), diagonal);
    loss.value = loss.value + penalty.of;
    const X by_hull = -2 * (penalty.of * penalty.per);
    for (int a = 0; a < 2; ++a) {
      slopes.out[a] = multiply_add(axis[a].hull, by_hull, slopes.out[a]);
      slopes.in[a] = multiply_add(axis[a].hull, by_hull, slopes.in[a]);
      shift[a] = 0.5 * penalty.per * (a == 0 ? x : y);
    }
  }

  template <class X>
  BEVEL_HD static void add_aspect(RowLoss<X>& loss, EdgeSlopes<X>& slopes, const Extent<X> (&axis)[2], X iou) {
    constexpr double four_over_pi2 = 0.40528473456935108578;
    const X w = axis[0].size;
    const X h = axis[1].size;
    const X difference = aspect_difference(axis[0].target_size, axis[1].target_size, w, h);
    const X v = four_over_pi2 * difference * difference;
    const X alpha = X(value_of(v) * value_of(share(v, 1 - iou + v).per));
    loss.value = loss.value + alpha * v;
    const X slope = -2 * four_over_pi2 * alpha * difference * share(v, multiply_add(w, w, h * h)).per;
    slopes.out[0] = multiply_add(axis[0].has_size, slope * h, slopes.out[0]);
    slopes.out[1] = multiply_add(-axis[1].has_size, slope * w, slopes.out[1]);
  }
};

}  // namespace formula

}  // namespace bevel
