#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bbox_regression/settings.h"
#include "bbox_regression/trainer.h"
#include "examples/fixtures.h"

namespace bbox {
namespace {

using fixtures::message_of;
using fixtures::TempDir;
using testing::AllOf;
using testing::HasSubstr;

TEST(Precision, IsReadFromItsName) {
  EXPECT_EQ(parse_precision("f32"), Precision::f32);
  EXPECT_EQ(parse_precision("tf32"), Precision::tf32);
  EXPECT_EQ(parse_precision("bf16"), Precision::bf16);
  EXPECT_EQ(parse_precision("f16"), Precision::f16);
  EXPECT_THAT(message_of([] { parse_precision("f8"); }), AllOf(HasSubstr("f8"), HasSubstr("bf16")));
}

TrainingResult train_in(Precision precision, bevel::Device device) {
  const TempDir dir;
  Settings settings = recipe_for_drawn();
  settings.model = {.size = 32, .width = 8, .groups = 4};
  settings.epochs = 6;
  settings.batch = 16;
  settings.drawn_pictures = 160;
  settings.drawn_held_out = 40;
  settings.device = device;
  settings.precision = precision;
  settings.out = dir / "out";
  std::ostringstream out;
  return train(settings, out, false);
}

void expect_like_f32(bevel::Device device) {
  const TrainingResult full = train_in(Precision::f32, device);
  EXPECT_LT(full.last_loss, full.first_loss);
  for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::f16}) {
    const TrainingResult result = train_in(precision, device);
    EXPECT_NEAR(result.last_loss, full.last_loss, 0.2 * full.last_loss) << static_cast<int>(precision);
    EXPECT_NEAR(result.last.mean_iou, full.last.mean_iou, 0.1) << static_cast<int>(precision);
    EXPECT_EQ(train_in(precision, device).checksum, result.checksum) << static_cast<int>(precision);
  }
}

TEST(Precision, HalfTypesLearnAsF32Does) {
  expect_like_f32(bevel::cpu);
}

TEST(PrecisionCuda, HalfTypesLearnAsF32Does) {
  if (bevel::cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  expect_like_f32(bevel::cuda());
}

}  // namespace
}  // namespace bbox
