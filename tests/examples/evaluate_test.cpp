#include "bbox_regression/evaluate.h"

#include <bevel/core/random.h>

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bbox_regression/predict.h"
#include "examples/fixtures.h"

namespace bbox {
namespace {

using fixtures::message_of;
using testing::HasSubstr;

TEST(Evaluate, PredictionsDoNotDependOnTheBatchAndLeaveTheModeAlone) {
  bevel::manual_seed(1);
  Regressor model({.size = 16, .width = 4, .norm = Norm::B0});
  const PictureSet pictures = draw_pictures(1, 0, 7, 16);
  const std::vector<CentreBox> at_once = predict_boxes(model, pictures);
  EXPECT_TRUE(model.is_training());
  const std::vector<CentreBox> in_threes = predict_boxes(model, pictures, 3);
  ASSERT_EQ(at_once.size(), 7u);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(at_once[i].cx, in_threes[i].cx, 1e-5f);
    EXPECT_NEAR(at_once[i].h, in_threes[i].h, 1e-5f);
  }
  EXPECT_THAT(message_of([&] { predict_boxes(model, draw_pictures(1, 0, 1, 20)); }),
              HasSubstr("20 x 20 pixels for a network of 16"));
  EXPECT_THAT(message_of([&] { score(at_once, std::vector<CentreBox>(2)); }), HasSubstr("7 boxes for 2 pictures"));
}

TEST(Evaluate, BoxesOfPicturesAreInTheirPixelsAndInside) {
  bevel::manual_seed(1);
  Regressor model({.size = 16, .width = 4, .groups = 2});
  const Image image = fixtures::gradient(100, 40);
  const PictureSet squeezed{{resize(image, 16, 16)}, {{}}, {{}}};
  const Box share = to_corners(predict_boxes(model, squeezed).front());
  const Box box = predict_box(model, image);
  EXPECT_EQ(box, intersect(scaled(share, 100, 40), {0, 0, 100, 40}));
}

TEST(Evaluate, Table) {
  std::ostringstream out;
  print_table(out, {{"a", {0.5, 0.25, 12}}, {"always the mean training box", {1, 1, 12}}});
  EXPECT_THAT(out.str(), HasSubstr("12 held-out pictures"));
  EXPECT_THAT(out.str(), HasSubstr("\na                                 0.500          25.0 %\n"));
  EXPECT_THAT(out.str(), HasSubstr("\nalways the mean training box      1.000         100.0 %\n"));
}

TEST(Evaluate, SheetShowsBothBoxes) {
  const PictureSet pictures{{blank(160, 160)}, {{0.5f, 0.5f, 0.5f, 0.5f}}, {"a"}};
  const Image sheet = prediction_sheet(pictures, std::vector<CentreBox>{{0.5f, 0.5f, 0.25f, 0.25f}});
  EXPECT_EQ(sheet.width, 168);
  EXPECT_GT(sheet.at(4 + 40, 4 + 80)[1], 150);  // the true box, green
  EXPECT_GT(sheet.at(4 + 60, 4 + 80)[0], 150);  // the predicted one, red
}

}  // namespace
}  // namespace bbox
