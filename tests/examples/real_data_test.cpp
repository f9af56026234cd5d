// The two public data sets, where they are at hand: $BEVEL_DATA or ../shared/data beside the source tree.
#include <gtest/gtest.h>

#include "bbox_regression/image_io.h"
#include "bbox_regression/voc.h"
#include "examples/fixtures.h"

namespace bbox {
namespace {

struct Expected {
  const char* folder;
  const char* class_name;
  std::size_t train, held_out;
  double mean_box_iou;
};

class RealData : public testing::TestWithParam<Expected> {};

TEST_P(RealData, SplitAndMeanBoxAreThoseOfTheReference) {
  const Expected& expected = GetParam();
  const std::filesystem::path folder = fixtures::data_folder() / expected.folder;
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no data set at " << folder << "; set BEVEL_DATA";
  const VocFolder voc = read_voc(folder, expected.class_name);
  std::vector<CentreBox> train, held_out;
  for (std::size_t i = 0; i < voc.samples.size(); ++i) {
    const Sample& sample = voc.samples[i];
    const Box box =
        scaled(sample.box, 1.0f / static_cast<float>(sample.width), 1.0f / static_cast<float>(sample.height));
    (VocFolder::held_out(i) ? held_out : train).push_back(to_centre(box));
  }
  EXPECT_EQ(train.size(), expected.train);
  EXPECT_EQ(held_out.size(), expected.held_out);
  EXPECT_NEAR(score_constant(mean_box(train), held_out).mean_iou, expected.mean_box_iou, 0.0006);
}

TEST_P(RealData, EveryPictureCanBeRead) {
  const std::filesystem::path folder = fixtures::data_folder() / GetParam().folder;
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no data set at " << folder << "; set BEVEL_DATA";
  std::size_t count = 0;
  for (const Sample& sample : read_voc(folder, GetParam().class_name).samples) {
    const Image image = load_image(sample.picture);
    EXPECT_EQ(image.width, sample.width);
    EXPECT_EQ(image.height, sample.height);
    ++count;
  }
  EXPECT_EQ(count, GetParam().train + GetParam().held_out);
}

INSTANTIATE_TEST_SUITE_P(Sets, RealData,
                         testing::Values(Expected{"raccoon", "", 147, 37, 0.611},
                                         Expected{"bccd", "WBC", 275, 69, 0.158}),
                         [](const auto& set) { return std::string(set.param.folder); });

}  // namespace
}  // namespace bbox
