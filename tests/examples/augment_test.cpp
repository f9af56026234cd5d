#include "bbox_regression/augment.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bbox_regression/draws.h"
#include "examples/fixtures.h"

namespace bbox {
namespace {

// Back to bytes of 0 to 255.
float byte(float number) {
  return number / static_cast<float>(network_pixels.factor) + static_cast<float>(network_pixels.centre);
}

bevel::Tensor as_tensor(const Image& image) {
  return bevel::Tensor::from_values({1, image.height, image.width, 3}, image.rgb, {.dtype = bevel::u8});
}

std::vector<float> apply(const Image& image, const Change& change) {
  const WarpRow row = warp_row(change);
  const auto warps = bevel::Tensor::from_values({1, 5}, std::vector<float>(row.begin(), row.end()));
  return bevel::warp_images(as_tensor(image), warps, network_pixels).to_vector<float>();
}

TEST(Augment, NoChangeGivesThePictureItself) {
  const Image image = fixtures::gradient(32, 32);
  const std::vector<float> plain = bevel::image_to_float(as_tensor(image), network_pixels).to_vector<float>();
  const std::vector<float> same = apply(image, Change{});
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ASSERT_EQ(same[i], plain[i]);
    ASSERT_NEAR(byte(plain[i]), image.rgb[i], 1e-3f);
  }
  EXPECT_FLOAT_EQ(plain[2], (90 / 255.0f - 0.5f) * 4);
}

TEST(Augment, FlipMirrors) {
  const Image image = fixtures::gradient(32, 32);
  Change flip;
  flip.flip = true;
  const std::vector<float> out = apply(image, flip);
  for (int x = 0; x < 32; ++x) EXPECT_NEAR(byte(out[static_cast<std::size_t>(x) * 3]), image.at(31 - x, 0)[0], 1e-2f);
  EXPECT_EQ(changed({0.125f, 0.25f, 0.5f, 0.75f}, flip), (Box{0.5f, 0.25f, 0.875f, 0.75f}));
}

TEST(Augment, BrightnessMultipliesAndIsCut) {
  const Image image = blank(4, 4, {100, 200, 250});
  Change brighter;
  brighter.brightness = 1.2f;
  const std::vector<float> out = apply(image, brighter);
  EXPECT_NEAR(byte(out[0]), 120, 1e-2f);
  EXPECT_NEAR(byte(out[1]), 240, 1e-2f);
  EXPECT_NEAR(byte(out[2]), 255, 1e-2f);
}

// A black picture with a white rectangle; where it ends up after the change is measured by its coverage along the two
// middle lines, which finds edges between pixels too.
TEST(Augment, TheBoxFollowsThePixels) {
  const int size = 128;
  int cut = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    Draws draws(9, i);
    const int x1 = draws.below(90), y1 = draws.below(90);
    const int x2 = x1 + 10 + draws.below(size - x1 - 10), y2 = y1 + 10 + draws.below(size - y1 - 10);
    Image image = blank(size, size);
    for (int y = y1; y < y2; ++y) std::fill(image.at(x1, y), image.at(x1, y) + (x2 - x1) * 3, std::uint8_t{255});
    const Box box =
        scaled({static_cast<float>(x1), static_cast<float>(y1), static_cast<float>(x2), static_cast<float>(y2)},
               1.0f / size, 1.0f / size);
    Change change = draw_change(box, 1, 2, i);
    change.brightness = 1;
    const Box moved = scaled(changed(box, change), size, size);
    cut += moved.x1 == 0 || moved.y1 == 0 || moved.x2 == size || moved.y2 == size ? 1 : 0;
    const std::vector<float> out = apply(image, change);
    const auto light = [&](int x, int y) {
      const float value = out[static_cast<std::size_t>(y * size + x) * 3];
      return value == 0 ? 0 : byte(value) / 255;  // exactly 0 is the grey beyond the picture
    };
    const int middle_x = static_cast<int>((moved.x1 + moved.x2) / 2),
              middle_y = static_cast<int>((moved.y1 + moved.y2) / 2);
    float width = 0, height = 0, centre_x = 0, centre_y = 0;
    for (int k = 0; k < size; ++k) {
      const float at = static_cast<float>(k) + 0.5f;
      width += light(k, middle_y);
      height += light(middle_x, k);
      centre_x += light(k, middle_y) * at;
      centre_y += light(middle_x, k) * at;
    }
    EXPECT_NEAR(width, moved.x2 - moved.x1, 0.6f) << i;
    EXPECT_NEAR(height, moved.y2 - moved.y1, 0.6f) << i;
    EXPECT_NEAR(centre_x / width, (moved.x1 + moved.x2) / 2, 0.6f) << i;
    EXPECT_NEAR(centre_y / height, (moved.y1 + moved.y2) / 2, 0.6f) << i;
  }
  EXPECT_GT(cut, 10);  // the cutting of boxes was really tried
}

TEST(Augment, BeyondTheEdgeThePictureIsGrey) {
  const Image image = fixtures::gradient(16, 16);
  Change shift;
  shift.offset_x = 0.5f;
  const std::vector<float> out = apply(image, shift);
  for (std::size_t x = 0; x < 8; ++x) EXPECT_EQ(out[x * 3], 0.0f);
  EXPECT_NEAR(byte(out[8 * 3]), image.at(0, 0)[0], 1e-2f);
  EXPECT_NEAR(byte(out[15 * 3]), image.at(7, 0)[0], 1e-2f);
}

TEST(Augment, ChangesFollowTheRecipe) {
  const Box box{0.1f, 0.6f, 0.4f, 0.9f};
  int flips = 0;
  float least = 2, most = 0, dark = 2, light = 0, leftmost = 1, rightmost = 0;
  const int n = 4000;
  for (int i = 0; i < n; ++i) {
    const Change change = draw_change(box, 3, 0, static_cast<std::uint64_t>(i));
    flips += change.flip ? 1 : 0;
    for (const float scale : {change.scale_x, change.scale_y}) {
      least = std::min(least, scale);
      most = std::max(most, scale);
    }
    dark = std::min(dark, change.brightness);
    light = std::max(light, change.brightness);
    if (change.flip) continue;
    const float centre = 0.25f * change.scale_x + change.offset_x;
    leftmost = std::min(leftmost, centre);
    rightmost = std::max(rightmost, centre);
  }
  EXPECT_NEAR(flips, 2000, 200);
  EXPECT_NEAR(least, 0.75f, 0.005f);
  EXPECT_NEAR(most, 1.35f, 0.005f);
  EXPECT_NEAR(dark, 0.8f, 0.005f);
  EXPECT_NEAR(light, 1.2f, 0.005f);
  EXPECT_NEAR(leftmost, (0.25f + 0.15f) / 2, 0.005f);
  EXPECT_NEAR(rightmost, (0.25f + 0.85f) / 2, 0.005f);
}

TEST(Augment, DependsOnSeedEpochAndIndexAlone) {
  const Box box{0.2f, 0.2f, 0.6f, 0.7f};
  const auto offset = [&](std::uint64_t seed, std::uint64_t epoch, std::uint64_t index) {
    return draw_change(box, seed, epoch, index).offset_x;
  };
  EXPECT_EQ(offset(1, 2, 3), offset(1, 2, 3));
  EXPECT_NE(offset(1, 2, 3), offset(2, 2, 3));
  EXPECT_NE(offset(1, 2, 3), offset(1, 3, 3));
  EXPECT_NE(offset(1, 2, 3), offset(1, 2, 4));
}

}  // namespace
}  // namespace bbox
