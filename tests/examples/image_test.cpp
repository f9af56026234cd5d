#include "bbox_regression/image.h"

#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "examples/fixtures.h"

namespace bbox {
namespace {

using fixtures::message_of;
using testing::HasSubstr;

TEST(Image, ResizeToTheSameSizeChangesNothing) {
  const Image image = fixtures::gradient(13, 7);
  EXPECT_EQ(resize(image, 13, 7).rgb, image.rgb);
}

TEST(Image, ResizeKeepsOneColour) {
  const Image image = blank(97, 31, {10, 255, 200});
  for (const auto& [width, height] : {std::pair{5, 3}, {200, 100}, {97, 3}, {1, 1}}) {
    EXPECT_EQ(resize(image, width, height).rgb, blank(width, height, {10, 255, 200}).rgb);
  }
}

TEST(Image, ResizeAveragesFineTextureInsteadOfPickingPixels) {
  Image stripes = blank(128, 128);
  for (int y = 0; y < 128; ++y) {
    for (int x = 0; x < 128; x += 2) stripes.at(x, y)[0] = 200;
  }
  const Image small = resize(stripes, 16, 16);
  for (int x = 1; x < 15; ++x) EXPECT_NEAR(small.at(x, 8)[0], 100, 2);
}

TEST(Image, ResizeFollowsALinearRampAwayFromTheEdges) {
  Image ramp = blank(120, 4);
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 120; ++x) ramp.at(x, y)[1] = static_cast<std::uint8_t>(2 * x);
  }
  for (const int width : {30, 45, 300}) {
    const Image out = resize(ramp, width, 4);
    const double ratio = 120.0 / width;
    const int rim = static_cast<int>(std::ceil(2 / std::min(1.0, 1 / ratio)));
    for (int x = rim; x < width - rim; ++x) EXPECT_NEAR(out.at(x, 2)[1], 2 * ((x + 0.5) * ratio - 0.5), 0.75) << x;
  }
}

TEST(Image, SizesAreChecked) {
  EXPECT_THAT(message_of([] { blank(0, 5); }), HasSubstr("0 x 5"));
  EXPECT_THAT(message_of([] { blank(1 << 15, 1 << 14); }), HasSubstr("more than 268435456 pixels"));
  EXPECT_THAT(message_of([] { resize(Image{}, 4, 4); }), HasSubstr("empty"));
  EXPECT_THAT(message_of([] { resize(blank(2, 2), -1, 4); }), HasSubstr("-1 x 4"));
}

TEST(Image, DrawBoxDrawsInwardsFromTheEdge) {
  Image image = blank(20, 10);
  draw_box(image, {3, 2, 15, 9}, {255, 0, 0}, 2);
  int painted = 0;
  for (int y = 0; y < 10; ++y) {
    for (int x = 0; x < 20; ++x) {
      const bool inside = x >= 3 && x < 15 && y >= 2 && y < 9;
      const bool hole = x >= 5 && x < 13 && y >= 4 && y < 7;
      EXPECT_EQ(image.at(x, y)[0], inside && !hole ? 255 : 0) << x << " " << y;
      painted += image.at(x, y)[0] == 255 ? 1 : 0;
    }
  }
  EXPECT_EQ(painted, 12 * 7 - 8 * 3);
}

TEST(Image, DrawBoxStaysInsideThePicture) {
  Image image = blank(8, 8);
  draw_box(image, {-5, -5, 4, 4}, {255, 255, 255}, 1);
  EXPECT_EQ(image.at(3, 0)[0], 255);
  EXPECT_EQ(image.at(0, 3)[0], 255);
  EXPECT_EQ(image.at(0, 0)[0], 0);
  draw_box(image, {-100, -100, 500, 500}, {255, 255, 255}, 3);
  draw_box(image, {-1e30f, NAN, 1e30f, INFINITY}, {255, 255, 255}, 1);
  draw_box(image, {6, 6, 2, 2}, {9, 9, 9}, 1);
  EXPECT_EQ(std::count(image.rgb.begin(), image.rgb.end(), 9), 0);
}

TEST(Image, MontageLaysPicturesInCells) {
  const std::vector<Image> images{blank(4, 4, {1, 1, 1}), blank(2, 2, {2, 2, 2}), blank(4, 4, {3, 3, 3})};
  const Image sheet = montage(images, 2, 1, {7, 7, 7});
  EXPECT_EQ(sheet.width, 2 * 5 + 1);
  EXPECT_EQ(sheet.height, 2 * 5 + 1);
  EXPECT_EQ(sheet.at(0, 0)[0], 7);
  EXPECT_EQ(sheet.at(1, 1)[0], 1);
  EXPECT_EQ(sheet.at(6, 1)[0], 7);  // the small one lies in the middle of its cell
  EXPECT_EQ(sheet.at(7, 2)[0], 2);
  EXPECT_EQ(sheet.at(4, 9)[0], 3);
  EXPECT_EQ(std::count(sheet.rgb.begin(), sheet.rgb.end(), 2), 2 * 2 * 3);
  EXPECT_THAT(message_of([] { montage({}, 2); }), HasSubstr("no picture"));
  EXPECT_THAT(message_of([&] { montage(images, 0); }), HasSubstr("columns"));
}

}  // namespace
}  // namespace bbox
