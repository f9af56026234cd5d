#include "bbox_regression/voc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bbox_regression/image_io.h"
#include "bbox_regression/voc_file.h"
#include "examples/fixtures.h"

namespace bbox {
namespace {

using fixtures::message_of;
using fixtures::TempDir;
using fixtures::write_text;
using testing::AllOf;
using testing::HasSubstr;

std::string object(const std::string& name, const std::string& xmin, const std::string& ymin, const std::string& xmax,
                   const std::string& ymax) {
  return "<object><name>" + name + "</name><bndbox><xmin>" + xmin + "</xmin><ymin>" + ymin + "</ymin>\n<xmax>" + xmax +
         "</xmax><ymax>" + ymax + "</ymax></bndbox></object>\n";
}

std::string annotation(const std::string& filename, const std::string& objects) {
  return "<annotation>\n<filename>" + filename + "</filename>\n" + objects + "</annotation>\n";
}

// A picture of 40 x 30 pixels with its annotation, in `annotations/` and `images/`.
void add(const TempDir& dir, const std::string& stem, const std::string& objects) {
  write_text(dir / ("annotations/" + stem + ".xml"), annotation(stem + ".png", objects));
  std::filesystem::create_directories(dir / "images");
  write_png(dir / ("images/" + stem + ".png"), blank(40, 30));
}

TEST(Voc, BoxesBecomeZeroBasedAndHalfOpen) {
  const TempDir dir;
  add(dir, "a", object("cat", "1", "1", "40", "30"));
  add(dir, "b", object(" cat ", "11", "6.5", "20", "12"));
  const VocFolder folder = read_voc(dir.path(), "cat");
  ASSERT_EQ(folder.samples.size(), 2u);
  EXPECT_EQ(folder.samples[0].box, (Box{0, 0, 40, 30}));
  EXPECT_EQ(folder.samples[1].box, (Box{10, 5.5f, 20, 12}));
  EXPECT_EQ(folder.samples[1].width, 40);
  EXPECT_EQ(folder.samples[1].height, 30);
  EXPECT_EQ(folder.clipped, 0u);
}

TEST(Voc, LeavesOutWithReasons) {
  const TempDir dir;
  const std::string good = object("cat", "2", "2", "9", "9");
  add(dir, "good", good + object("dog", "1", "1", "5", "5") + object("dog", "2", "2", "5", "5"));
  add(dir, "dogs", object("dog", "1", "1", "5", "5"));
  add(dir, "empty", "");
  add(dir, "two", good + object("cat", "12", "12", "19", "19"));
  add(dir, "flat", object("cat", "5", "5", "5", "5"));
  add(dir, "slip", good + object("cat", "5", "5", "5", "5"));
  add(dir, "far", object("cat", "50", "50", "60", "60"));
  add(dir, "sized", "<size><width>30</width><height>40</height></size>" + good);
  add(dir, "lost", good);
  std::filesystem::remove(dir / "images/lost.png");
  const VocFolder folder = read_voc(dir.path(), "cat");
  ASSERT_EQ(folder.samples.size(), 1u);
  EXPECT_EQ(folder.samples[0].picture.filename(), "good.png");
  EXPECT_EQ(folder.left_out.size(), 8u);
  EXPECT_THAT(
      folder.report(),
      AllOf(HasSubstr("1 picture with exactly one box of class \"cat\", 8 left out"),
            HasSubstr("2: no box of the class (dogs.xml, ...)"), HasSubstr("1: several boxes of the class"),
            HasSubstr("2: a box without area"), HasSubstr("1: box outside the picture (far.xml)"),
            HasSubstr("1: picture of another size than annotated"), HasSubstr("1: picture missing (lost.xml)")));
}

TEST(Voc, BoxesAreCutAtThePictureAndReported) {
  const TempDir dir;
  add(dir, "a", object("cat", "-3", "0", "45", "31"));
  add(dir, "b", object("cat", "1", "1", "45", "10"));
  const VocFolder folder = read_voc(dir.path(), "cat");
  EXPECT_EQ(folder.samples[0].box, (Box{0, 0, 40, 30}));
  EXPECT_EQ(folder.samples[1].box, (Box{0, 0, 40, 10}));
  EXPECT_EQ(folder.clipped, 2u);
  EXPECT_THAT(folder.report(), HasSubstr("2 boxes cut at the picture's edge"));
}

TEST(Voc, FolderLayouts) {
  const std::string box = object("cat", "2", "2", "9", "9");
  for (const auto& [annotations, images] : {std::pair<std::string, std::string>{"Annotations/", "JPEGImages/"},
                                            {"annotations/", "images/"},
                                            {"", ""},
                                            {"", "images/"},
                                            {"annotations/", ""}}) {
    const TempDir dir;
    write_text(dir / (annotations + "x.xml"), annotation("C:\\photos\\x.png", box));
    std::filesystem::create_directories(dir / images);
    write_png(dir / (images + "x.png"), blank(40, 30));
    EXPECT_EQ(read_voc(dir.path()).samples.size(), 1u) << annotations << " " << images;
  }
}

TEST(Voc, PictureIsFoundByTheAnnotationsNameToo) {
  const TempDir dir;
  write_text(dir / "x.xml", annotation("/elsewhere/renamed.bmp", object("cat", "2", "2", "9", "9")));
  fixtures::write_jpeg(dir / "x.JPG", blank(40, 30), fixtures::Jpeg::rgb);
  EXPECT_EQ(read_voc(dir.path()).samples.at(0).picture.filename(), "x.JPG");
}

TEST(Voc, SortedByNameAndEveryFifthHeldOut) {
  const TempDir dir;
  for (const char* stem : {"b", "a-10", "a-1", "c", "a-2"}) add(dir, stem, object("cat", "2", "2", "9", "9"));
  const VocFolder folder = read_voc(dir.path());
  std::string order;
  for (const Sample& sample : folder.samples) order += sample.annotation.stem().string() + " ";
  EXPECT_EQ(order, "a-1 a-10 a-2 b c ");
  int held = 0;
  for (std::size_t i = 0; i < 184; ++i) held += VocFolder::held_out(i) ? 1 : 0;
  EXPECT_EQ(held, 37);
  EXPECT_TRUE(VocFolder::held_out(0));
  EXPECT_TRUE(VocFolder::held_out(5));
  EXPECT_FALSE(VocFolder::held_out(4));
}

TEST(Voc, ChoosingTheClass) {
  const TempDir dir;
  add(dir, "a", object("cat", "2", "2", "9", "9") + object("dog", "1", "1", "5", "5"));
  EXPECT_THAT(message_of([&] { read_voc(dir.path()); }),
              HasSubstr("several classes, choose one by --class: cat (1), dog (1)"));
  EXPECT_THAT(message_of([&] { read_voc(dir.path(), "Cat"); }),
              AllOf(HasSubstr("no box of class \"Cat\""), HasSubstr("cat (1), dog (1)")));
  EXPECT_EQ(read_voc(dir.path(), "dog").class_name, "dog");
}

TEST(Voc, FolderErrors) {
  const TempDir dir;
  EXPECT_THAT(message_of([&] { read_voc(dir / "none"); }), HasSubstr("none: no such folder"));
  EXPECT_THAT(message_of([&] { read_voc(dir.path()); }), HasSubstr("no .xml annotation"));
  add(dir, "a", "");
  EXPECT_THAT(message_of([&] { read_voc(dir.path()); }), HasSubstr("none of the 1 annotations has a box"));
  add(dir, "a", object("cat", "5", "5", "5", "5"));
  EXPECT_THAT(message_of([&] { read_voc(dir.path()); }),
              AllOf(HasSubstr("no usable picture"), HasSubstr("1: a box without area (a.xml)")));
  add(dir, "a", object("cat", "2", "2", "9", "9"));
  write_text(dir / "images/a.png", "not a picture");
  EXPECT_THAT(message_of([&] { read_voc(dir.path()); }), HasSubstr("a.png: neither a JPEG nor a PNG"));
}

TEST(Voc, BrokenXmlNamesFileAndLine) {
  const TempDir dir;
  const auto path = dir / "bad.xml";
  const auto message = [&](const std::string& text) {
    write_text(path, text);
    return message_of([&] { read_voc_file(path); });
  };
  EXPECT_THAT(message("<annotation>\n  <filename>a.jpg</filename>\n  <object>\n  </objekt>\n</annotation>\n"),
              HasSubstr("bad.xml:4: broken XML: "));
  EXPECT_THAT(message("<annotation>\n\n<object>\n"), HasSubstr("bad.xml:3: broken XML: "));
  EXPECT_THAT(message(""), HasSubstr("bad.xml:1: broken XML: "));
  EXPECT_THAT(message("<!-- a -->\n<html></html>"), HasSubstr("bad.xml:2: not a VOC annotation: its root is <html>"));
  EXPECT_THAT(message("<annotation>\n" + object("cat", "1", "2", "x7", "4") + "</annotation>"),
              HasSubstr("bad.xml:3: <xmax> is not a number: \"x7\""));
  EXPECT_THAT(message("<annotation>\n" + object("cat", "1", "2", "3 4", "4") + "</annotation>"), HasSubstr("\"3 4\""));
  EXPECT_THAT(message("<annotation>\n" + object("cat", "1", "2", "nan", "4") + "</annotation>"), HasSubstr("\"nan\""));
  EXPECT_THAT(message("<annotation>\n<object><name>cat</name>\n<bndbox><xmin>1</xmin></bndbox></object></annotation>"),
              HasSubstr("bad.xml:3: <bndbox> has no <ymin>"));
  EXPECT_THAT(message("<annotation>\n\n<object><name>cat</name></object></annotation>"),
              HasSubstr("bad.xml:3: <object> \"cat\" has no <bndbox>"));
  EXPECT_THAT(message("<annotation>\n<object/></annotation>"), HasSubstr("bad.xml:2: <object> has no <name>"));
  EXPECT_THAT(message_of([&] { read_voc_file(dir / "none.xml"); }), HasSubstr("none.xml: no such file"));
}

}  // namespace
}  // namespace bbox
