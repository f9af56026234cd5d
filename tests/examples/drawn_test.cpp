#include "bbox_regression/drawn.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bbox_regression/draws.h"
#include "examples/fixtures.h"

namespace bbox {
namespace {

TEST(Draws, StreamsDependOnEveryKeyAndOnNothingElse) {
  std::set<std::uint64_t> firsts;
  for (std::uint64_t a = 0; a < 10; ++a) {
    for (std::uint64_t b = 0; b < 10; ++b) {
      for (std::uint64_t c = 0; c < 10; ++c) firsts.insert(Draws(a, b, c).bits());
    }
  }
  EXPECT_EQ(firsts.size(), 1000u);
  Draws one(1, 2, 3), two(1, 2, 3);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(one.bits(), two.bits());
}

TEST(Draws, NumbersAreUniform) {
  Draws draws(42);
  double sum = 0, squares = 0;
  int counts[5] = {};
  const int n = 100'000;
  for (int i = 0; i < n; ++i) {
    const float u = draws.uniform();
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += u;
    squares += u * u;
    ++counts[draws.below(5)];
  }
  EXPECT_NEAR(sum / n, 0.5, 0.005);
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.005);
  for (const int count : counts) EXPECT_NEAR(count, 20'000, 1000);
}

TEST(Drawn, DependsOnSeedIndexAndSizeAlone) {
  const Drawn first = draw_picture(7, 3, 48);
  draw_picture(8, 1, 32);
  const Drawn again = draw_picture(7, 3, 48);
  EXPECT_EQ(first.image.rgb, again.image.rgb);
  EXPECT_EQ(first.box, again.box);
  EXPECT_NE(first.image.rgb, draw_picture(7, 4, 48).image.rgb);
  EXPECT_NE(first.image.rgb, draw_picture(8, 3, 48).image.rgb);
  EXPECT_EQ(draw_picture(~std::uint64_t{0}, ~std::uint64_t{0}, 16).image.width, 16);
}

TEST(Drawn, BoxesLieInsideAndVary) {
  float least = 1, most = 0, left = 1, right = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const Box box = draw_picture(5, i, 16).box;
    ASSERT_GE(std::min(box.x1, box.y1), 0.0f) << i;
    ASSERT_LE(std::max(box.x2, box.y2), 1.0f + 1e-6f) << i;
    for (const float side : {box.x2 - box.x1, box.y2 - box.y1}) {
      least = std::min(least, side);
      most = std::max(most, side);
    }
    left = std::min(left, box.x1);
    right = std::max(right, box.x2);
  }
  EXPECT_GE(least, 0.149f);
  EXPECT_LT(least, 0.2f);
  EXPECT_LE(most, 0.601f);
  EXPECT_GT(most, 0.55f);
  EXPECT_LT(left, 0.02f);
  EXPECT_GT(right, 0.98f);
}

using Rgb = std::array<std::uint8_t, 3>;

Rgb colour_at(const Image& image, int x, int y) {
  return {image.at(x, y)[0], image.at(x, y)[1], image.at(x, y)[2]};
}

// Core, body and rim have one colour each: the third that is met from the centre to the left in a run of pixels.
Rgb rim_colour(const Image& image, int x, int y) {
  std::vector<Rgb> runs;
  for (; x >= 2 && runs.size() < 3; --x) {
    const Rgb here = colour_at(image, x, y);
    const bool run = here == colour_at(image, x - 1, y) && here == colour_at(image, x - 2, y);
    if (run && (runs.empty() || runs.back() != here)) runs.push_back(here);
  }
  return runs.size() == 3 ? runs[2] : Rgb{};
}

TEST(Drawn, TheBoxIsTightAroundTheTarget) {
  const int size = 256;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Drawn drawn = draw_picture(11, i, size);
    const Box box = scaled(drawn.box, size, size);
    const Rgb rim =
        rim_colour(drawn.image, static_cast<int>((box.x1 + box.x2) / 2), static_cast<int>((box.y1 + box.y2) / 2));
    Box seen{size, size, 0, 0};
    for (int y = 0; y < size; ++y) {
      for (int x = 0; x < size; ++x) {
        if (colour_at(drawn.image, x, y) != rim) continue;
        const float left = static_cast<float>(x), top = static_cast<float>(y);
        seen = {std::min(seen.x1, left), std::min(seen.y1, top), std::max(seen.x2, left + 1),
                std::max(seen.y2, top + 1)};
      }
    }
    EXPECT_NEAR(seen.x1, box.x1, 2) << i;
    EXPECT_NEAR(seen.y1, box.y1, 2) << i;
    EXPECT_NEAR(seen.x2, box.x2, 2) << i;
    EXPECT_NEAR(seen.y2, box.y2, 2) << i;
  }
}

TEST(Drawn, SizeIsChecked) {
  EXPECT_THAT(fixtures::message_of([] { draw_picture(1, 1, 8); }), testing::HasSubstr("size must be 16 to 4096"));
}

}  // namespace
}  // namespace bbox
