#include "bbox_regression/commands.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bbox_regression/image_io.h"
#include "examples/fixtures.h"

namespace bbox {
namespace {

using fixtures::TempDir;
using testing::AllOf;
using testing::HasSubstr;

struct Outcome {
  int status = 0;
  std::string out, err;
};

Outcome run(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"bbox"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.status = run_command_line(static_cast<int>(argv.size()), argv.data());
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(CommandLine, HelpShowsEveryDefault) {
  EXPECT_THAT(run({"--help"}).out, AllOf(HasSubstr("train"), HasSubstr("eval"), HasSubstr("predict")));
  const Outcome help = run({"train", "--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* text : {"[128; drawn pictures: 64]", "[300; drawn pictures: 16]", "[0.002; drawn pictures: 0.004]",
                           "[runs/bbox]", "[auto]", "[S0]", "--no-augment", "--class", "--seed", "--workers"}) {
    EXPECT_THAT(help.out, HasSubstr(text));
  }
  EXPECT_THAT(run({"eval", "--help"}).out, HasSubstr("[runs/bbox/best.safetensors]"));
}

TEST(CommandLine, MistakesEndWithAMessage) {
  EXPECT_NE(run({}).status, 0);
  EXPECT_NE(run({"train", "--norm", "X1"}).status, 0);
  EXPECT_NE(run({"train", "--epochs", "many"}).status, 0);
  EXPECT_NE(run({"train", "--augment", "--no-augment"}).status, 0);
  EXPECT_NE(run({"predict"}).status, 0);
  const TempDir dir;
  const Outcome missing = run({"train", "--data", dir / "none", "--device", "cpu", "--out", dir / "out"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("error: "), HasSubstr("none: no such folder")));
  EXPECT_THAT(run({"train", "--device", "tpu"}).err, HasSubstr("error: "));
  EXPECT_THAT(run({"eval", "--weights", dir / "none"}).err, HasSubstr("error: "));
}

TEST(CommandLine, TrainEvalPredict) {
  const TempDir dir;
  const std::string weights = dir / "best.safetensors";
  const Outcome train = run({"train", "--device", "cpu", "--size", "16", "--width", "4", "--groups", "2", "--epochs",
                             "2", "--pictures", "64", "--held-out", "10", "--out", dir.path()});
  ASSERT_EQ(train.status, 0) << train.err;
  EXPECT_THAT(train.out, HasSubstr("10 held-out pictures"));

  const Outcome eval = run({"eval", "--device", "cpu", "--weights", weights, "--sheet", dir / "sheet.png"});
  ASSERT_EQ(eval.status, 0) << eval.err;
  EXPECT_THAT(eval.out, AllOf(HasSubstr("256 held-out pictures"), HasSubstr("16 x 16 pixels, width 4")));
  EXPECT_GT(load_image(dir / "sheet.png").width, 100);

  fixtures::write_jpeg(dir / "in/photo.jpg", fixtures::gradient(320, 200), fixtures::Jpeg::rgb);
  write_png(dir / "photo.png", fixtures::gradient(50, 60));
  const std::string out = dir / "predictions";
  const Outcome predict = run({"predict", "--device", "cpu", "--weights", weights, "--image", dir / "in",
                               dir / "photo.png", "--out", out, "--sheet", dir / "all.png"});
  ASSERT_EQ(predict.status, 0) << predict.err;
  EXPECT_THAT(predict.out, HasSubstr("of 320 x 200 pixels"));
  EXPECT_EQ(load_image(out + "/photo_box.png").width, 320);
  EXPECT_EQ(load_image(out + "/photo-2_box.png").height, 60);
  EXPECT_GT(load_image(dir / "all.png").width, 240);

  ASSERT_EQ(run({"predict", "--device", "cpu", "--weights", weights, "--draw", "3", "--out", out}).status, 0);
  EXPECT_EQ(load_image(out + "/drawn-2_box.png").width, 16);

  const Outcome unreadable =
      run({"predict", "--device", "cpu", "--weights", weights, "--image", weights, "--out", out});
  EXPECT_EQ(unreadable.status, 1);
  EXPECT_THAT(unreadable.err, HasSubstr("neither a JPEG nor a PNG"));
}

}  // namespace
}  // namespace bbox
