#include "bbox_regression/pictures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bbox_regression/drawn.h"
#include "bbox_regression/image_io.h"
#include "examples/fixtures.h"

namespace bbox {
namespace {

using fixtures::message_of;
using fixtures::TempDir;
using testing::HasSubstr;

void add(const TempDir& dir, const std::string& stem) {
  fixtures::write_text(dir / (stem + ".xml"),
                       "<annotation><object><name>cat</name><bndbox><xmin>11</xmin><ymin>1</ymin><xmax>20</xmax>"
                       "<ymax>15</ymax></bndbox></object></annotation>");
  write_png(dir / (stem + ".png"), blank(40, 30, {10, 20, 30}));
}

TEST(Pictures, VocFoldersAreSplitAndSqueezed) {
  const TempDir dir;
  for (const char* stem : {"a", "b", "c", "d", "e", "f"}) add(dir, stem);
  const Pictures pictures = load_voc_pictures(dir.path(), "", 16);
  EXPECT_THAT(pictures.held_out.names, testing::ElementsAre("a.png", "f.png"));
  EXPECT_THAT(pictures.train.names, testing::ElementsAre("b.png", "c.png", "d.png", "e.png"));
  for (const PictureSet* set : {&pictures.train, &pictures.held_out}) {
    for (std::size_t i = 0; i < set->size(); ++i) {
      EXPECT_EQ(set->images[i].rgb, blank(16, 16, {10, 20, 30}).rgb);
      EXPECT_EQ(set->boxes[i], (CentreBox{0.375f, 0.25f, 0.25f, 0.5f}));
    }
  }
  EXPECT_THAT(pictures.report, HasSubstr("6 pictures with exactly one box of class \"cat\""));
}

TEST(Pictures, OnePictureIsTooFew) {
  const TempDir dir;
  add(dir, "a");
  EXPECT_THAT(message_of([&] { load_voc_pictures(dir.path(), "", 16); }), HasSubstr("one usable picture"));
  EXPECT_THAT(message_of([&] { load_voc_pictures(dir.path(), "", 8); }), HasSubstr("16 to 1024"));
}

TEST(Pictures, AnUnreadablePictureIsAnErrorThatNamesIt) {
  const TempDir dir;
  for (const char* stem : {"a", "b", "c"}) add(dir, stem);
  fixtures::cut(dir / "b.png", std::filesystem::file_size(dir / "b.png") - 20);  // its header can still be read
  EXPECT_THAT(message_of([&] { load_voc_pictures(dir.path(), "", 16); }), HasSubstr("b.png: broken PNG"));
}

TEST(Pictures, DrawnOnesAreARunOfTheSeries) {
  const PictureSet set = draw_pictures(3, 10, 5, 24);
  ASSERT_EQ(set.size(), 5u);
  const Drawn last = draw_picture(3, 14, 24);
  EXPECT_EQ(set.images[4].rgb, last.image.rgb);
  EXPECT_EQ(set.boxes[4], to_centre(last.box));
}

}  // namespace
}  // namespace bbox
