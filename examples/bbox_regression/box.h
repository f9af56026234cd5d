// Boxes in corner and centre form, their overlap, and the figures a regressor is judged by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace bbox {

// Corner form: 0-based and half-open, so that width is x2 - x1. Pixels or shares of the picture's sides.
struct Box {
  float x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  bool operator==(const Box&) const = default;
};

// Centre form, as the network predicts it, in shares of the picture's sides.
struct CentreBox {
  float cx = 0, cy = 0, w = 0, h = 0;
  bool operator==(const CentreBox&) const = default;
};

inline Box to_corners(const CentreBox& b) {
  return {b.cx - b.w / 2, b.cy - b.h / 2, b.cx + b.w / 2, b.cy + b.h / 2};
}

inline CentreBox to_centre(const Box& b) {
  return {(b.x1 + b.x2) / 2, (b.y1 + b.y2) / 2, b.x2 - b.x1, b.y2 - b.y1};
}

// Area; 0 where a side is negative (or NaN).
inline float area(const Box& b) {
  const float w = b.x2 - b.x1;
  const float h = b.y2 - b.y1;
  return w > 0 && h > 0 ? w * h : 0.0f;
}

inline Box intersect(const Box& a, const Box& b) {
  return {std::max(a.x1, b.x1), std::max(a.y1, b.y1), std::min(a.x2, b.x2), std::min(a.y2, b.y2)};
}

inline Box scaled(const Box& b, float sx, float sy) {
  return {b.x1 * sx, b.y1 * sy, b.x2 * sx, b.y2 * sy};
}

// Intersection over union, 0 to 1. 0 where either box has no area, whatever the other is.
inline float iou(const Box& a, const Box& b) {
  const float both = area(intersect(a, b));
  const float either = area(a) + area(b) - both;
  return both > 0 && either > 0 ? both / either : 0.0f;
}

inline float iou(const CentreBox& a, const CentreBox& b) {
  return iou(to_corners(a), to_corners(b));
}

// The mean of each of the four numbers: the best constant guess, and the bar a regressor has to clear.
// Zero for an empty list.
inline CentreBox mean_box(std::span<const CentreBox> boxes) {
  double sum[4] = {};
  for (const CentreBox& b : boxes) {
    sum[0] += b.cx;
    sum[1] += b.cy;
    sum[2] += b.w;
    sum[3] += b.h;
  }
  const double n = boxes.empty() ? 1.0 : static_cast<double>(boxes.size());
  return {static_cast<float>(sum[0] / n), static_cast<float>(sum[1] / n), static_cast<float>(sum[2] / n),
          static_cast<float>(sum[3] / n)};
}

struct Metrics {
  double mean_iou = 0;
  double above_half = 0;  // share of pictures whose IoU is above 0.5
  std::size_t count = 0;
};

// Adds up pictures one by one.
class Score {
 public:
  void add(const CentreBox& predicted, const CentreBox& truth) {
    const float overlap = iou(predicted, truth);
    sum_ += overlap;
    above_ += overlap > 0.5f ? 1 : 0;
    ++count_;
  }

  Metrics metrics() const {
    const double n = count_ == 0 ? 1.0 : static_cast<double>(count_);
    return {sum_ / n, static_cast<double>(above_) / n, count_};
  }

 private:
  double sum_ = 0;
  std::size_t above_ = 0;
  std::size_t count_ = 0;
};

// How the constant box `guess` does on `truths`.
inline Metrics score_constant(const CentreBox& guess, std::span<const CentreBox> truths) {
  Score score;
  for (const CentreBox& truth : truths) score.add(guess, truth);
  return score.metrics();
}

}  // namespace bbox
