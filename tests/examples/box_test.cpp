#include "bbox_regression/box.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace bbox {
namespace {

TEST(Box, FormsConvertBothWays) {
  const Box corners{0.25f, 0.5f, 0.75f, 1.0f};
  const CentreBox centre = to_centre(corners);
  EXPECT_EQ(centre, (CentreBox{0.5f, 0.75f, 0.5f, 0.5f}));
  EXPECT_EQ(to_corners(centre), corners);
}

TEST(Box, IouOfKnownPairs) {
  const Box a{0, 0, 2, 2};
  EXPECT_FLOAT_EQ(iou(a, a), 1.0f);
  EXPECT_FLOAT_EQ(iou(a, Box{1, 1, 3, 3}), 1.0f / 7.0f);
  EXPECT_FLOAT_EQ(iou(a, Box{0, 0, 1, 1}), 0.25f);
  EXPECT_EQ(iou(a, Box{2, 0, 4, 2}), 0.0f);  // they touch
  EXPECT_EQ(iou(a, Box{5, 5, 6, 6}), 0.0f);
  EXPECT_FLOAT_EQ(iou(CentreBox{0.5f, 0.5f, 0.5f, 0.5f}, CentreBox{0.5f, 0.5f, 0.25f, 0.5f}), 0.5f);
}

TEST(Box, IouOfDegenerateBoxesIsZero) {
  const Box good{0, 0, 1, 1};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Box& bad : {Box{0, 0, 0, 1}, Box{1, 1, 0, 0}, Box{nan, 0, 1, 1}, Box{0, 0, nan, nan}}) {
    EXPECT_EQ(iou(good, bad), 0.0f);
    EXPECT_EQ(iou(bad, good), 0.0f);
    EXPECT_EQ(iou(bad, bad), 0.0f);
  }
}

TEST(Box, MeanBoxAndScores) {
  const std::vector<CentreBox> truths{{0.25f, 0.5f, 0.5f, 0.5f}, {0.75f, 0.5f, 0.5f, 0.25f}};
  const CentreBox mean = mean_box(truths);
  EXPECT_EQ(mean, (CentreBox{0.5f, 0.5f, 0.5f, 0.375f}));
  EXPECT_EQ(mean_box({}), CentreBox{});

  const Metrics perfect_half = score_constant(truths[0], truths);
  EXPECT_EQ(perfect_half.count, 2u);
  EXPECT_DOUBLE_EQ(perfect_half.mean_iou, 0.5);  // the other does not overlap
  EXPECT_DOUBLE_EQ(perfect_half.above_half, 0.5);

  Score exactly_half;  // "above 0.5" does not include 0.5
  exactly_half.add({0.5f, 0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.25f, 0.5f});
  EXPECT_EQ(exactly_half.metrics().above_half, 0.0);
  EXPECT_EQ(Score().metrics().mean_iou, 0.0);
}

}  // namespace
}  // namespace bbox
