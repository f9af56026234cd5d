#include "bbox_regression/model.h"

#include <bevel/core/random.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "examples/fixtures.h"

namespace bbox {
namespace {

using fixtures::message_of;
using testing::AllOf;
using testing::HasSubstr;

TEST(Model, HasTheLayersOfTheRecipe) {
  bevel::manual_seed(1);
  const Regressor model({});
  // Convolutions 3x3 between 3, 32, 32, 64, 64, 128, 128, 256, 256 channels; three parameters a channel for S0; 256
  // x 4.
  const std::int64_t pairs = 3 * 32 + 32 * 32 + 32 * 64 + 64 * 64 + 64 * 128 + 128 * 128 + 128 * 256 + 256 * 256;
  EXPECT_EQ(model.num_parameters(), 9 * pairs + 3 * 2 * (32 + 64 + 128 + 256) + 256 * 4 + 4);
  EXPECT_TRUE(model.named_buffers().empty());
  EXPECT_EQ(Regressor({.norm = Norm::B0}).named_buffers().size(), 8u);
  EXPECT_EQ(Regressor({.norm = Norm::batch}).named_buffers().size(), 16u);
  EXPECT_EQ(Regressor({.norm = Norm::group}).num_parameters(), model.num_parameters() - 2 * (32 + 64 + 128 + 256));
}

TEST(Model, MapsPicturesToBoxes) {
  bevel::manual_seed(1);
  Regressor model({.size = 24, .width = 4, .groups = 2});
  EXPECT_EQ(model(bevel::Tensor::zeros({5, 24, 24, 3})).shape(), bevel::Shape({5, 4}));
  EXPECT_THAT(message_of([&] { model(bevel::Tensor::zeros({5, 3, 24, 24})); }),
              AllOf(HasSubstr("[N, 24, 24, 3]"), HasSubstr("[5, 3, 24, 24]")));
  EXPECT_THAT(message_of([&] { model(bevel::Tensor::zeros({24, 24, 3})); }), HasSubstr("[24, 24, 3]"));
}

TEST(Model, OptionsAreChecked) {
  EXPECT_THAT(message_of([] { Regressor({.size = 8}); }), HasSubstr("size must be at least 16, not 8"));
  EXPECT_THAT(message_of([] { Regressor({.width = 0}); }), HasSubstr("width must be at least 1"));
  EXPECT_THAT(message_of([] { Regressor({.width = 12, .groups = 8}); }), HasSubstr("groups is 8, width 12"));
  EXPECT_NO_THROW(Regressor({.size = 16, .width = 3, .norm = Norm::B0}));
  EXPECT_THAT(message_of([] { Regressor({.width = 12, .norm = Norm::group}); }), HasSubstr("groups is 8, width 12"));
  EXPECT_EQ(parse_norm("B0"), Norm::B0);
  EXPECT_EQ(parse_norm("group"), Norm::group);
  EXPECT_THAT(message_of([] { parse_norm("b0"); }), HasSubstr("unknown norm \"b0\""));
}

TEST(Model, ChecksumTellsWeightsApart) {
  const ModelOptions options{.size = 16, .width = 2, .norm = Norm::B0};
  const auto made = [&](std::uint64_t seed) {
    bevel::manual_seed(seed);
    return Regressor(options);
  };
  EXPECT_EQ(checksum(made(1)), checksum(made(1)));
  EXPECT_NE(checksum(made(1)), checksum(made(2)));
  Regressor model = made(1);
  const std::uint64_t before = checksum(model);
  const bevel::Tensor buffer = model.named_buffers().back().tensor;
  buffer.data<float>()[0] += 1e-6f;
  EXPECT_NE(checksum(model), before);
}

}  // namespace
}  // namespace bbox
