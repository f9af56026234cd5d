#include "bbox_regression/image_io.h"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include "bbox_regression/files.h"
#include "examples/fixtures.h"

namespace bbox {
namespace {

using fixtures::Jpeg;
using fixtures::message_of;
using fixtures::RawPng;
using fixtures::TempDir;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

std::vector<int> pixel(const Image& image, int x, int y) {
  return {image.at(x, y)[0], image.at(x, y)[1], image.at(x, y)[2]};
}

// The largest difference of any byte.
int worst(const Image& a, const Image& b) {
  EXPECT_EQ(a.rgb.size(), b.rgb.size());
  int most = 0;
  for (std::size_t i = 0; i < std::min(a.rgb.size(), b.rgb.size()); ++i) {
    most = std::max(most, std::abs(a.rgb[i] - b.rgb[i]));
  }
  return most;
}

TEST(ImageIo, PngComesBackAsWritten) {
  const TempDir dir;
  const Image image = fixtures::gradient(33, 17);
  write_png(dir / "a.png", image);
  const Image back = load_image(dir / "a.png");
  EXPECT_EQ(back.width, 33);
  EXPECT_EQ(back.height, 17);
  EXPECT_EQ(back.rgb, image.rgb);
  EXPECT_EQ(load_image_size(dir / "a.png").width, 33);
}

TEST(ImageIo, JpegKinds) {
  const TempDir dir;
  const Image image = fixtures::gradient(50, 37);
  for (const Jpeg kind : {Jpeg::rgb, Jpeg::progressive, Jpeg::cmyk, Jpeg::ycck}) {
    write_jpeg(dir / "a.jpg", image, kind);
    EXPECT_LE(worst(load_image(dir / "a.jpg"), image), 8) << static_cast<int>(kind);
  }
  const ImageSize size = load_image_size(dir / "a.jpg");
  EXPECT_EQ(size.width, 50);
  EXPECT_EQ(size.height, 37);
}

TEST(ImageIo, GreyJpegBecomesRgb) {
  const TempDir dir;
  const Image image = fixtures::gradient(40, 24);
  write_jpeg(dir / "a.jpg", image, Jpeg::grey);
  const Image back = load_image(dir / "a.jpg");
  for (int x = 0; x < 40; ++x) {
    EXPECT_EQ(back.at(x, 9)[0], back.at(x, 9)[1]);
    EXPECT_EQ(back.at(x, 9)[0], back.at(x, 9)[2]);
    EXPECT_NEAR(back.at(x, 9)[0], image.at(x, 9)[0], 4);
  }
}

TEST(ImageIo, PngKinds) {
  const TempDir dir;
  const auto path = dir / "a.png";
  write_raw_png(path, RawPng{2, 1, 8, PNG_COLOR_TYPE_GRAY, {10, 200}});
  EXPECT_THAT(pixel(load_image(path), 1, 0), ElementsAre(200, 200, 200));

  write_raw_png(path, RawPng{8, 1, 1, PNG_COLOR_TYPE_GRAY, {0x40}});
  EXPECT_THAT(pixel(load_image(path), 0, 0), ElementsAre(0, 0, 0));
  EXPECT_THAT(pixel(load_image(path), 1, 0), ElementsAre(255, 255, 255));

  write_raw_png(path, RawPng{2, 1, 8, PNG_COLOR_TYPE_PALETTE, {1, 0}}, {1, 2, 3, 40, 50, 60});
  EXPECT_THAT(pixel(load_image(path), 0, 0), ElementsAre(40, 50, 60));
  EXPECT_THAT(pixel(load_image(path), 1, 0), ElementsAre(1, 2, 3));

  // 16 bits, high byte first: a plain shortening to 8 bits, no change of brightness.
  write_raw_png(path, RawPng{2, 1, 16, PNG_COLOR_TYPE_GRAY, {0x40, 0x40, 0xff, 0xff}});
  EXPECT_THAT(pixel(load_image(path), 0, 0), ElementsAre(0x40, 0x40, 0x40));
  EXPECT_THAT(pixel(load_image(path), 1, 0), ElementsAre(255, 255, 255));
  write_raw_png(path, RawPng{1, 1, 16, PNG_COLOR_TYPE_RGB, {0x10, 0x10, 0x80, 0x80, 0xf0, 0xf0}});
  EXPECT_THAT(pixel(load_image(path), 0, 0), ElementsAre(0x10, 0x80, 0xf0));
}

TEST(ImageIo, TransparentPngLiesOverWhite) {
  const TempDir dir;
  const auto path = dir / "a.png";
  write_raw_png(path, RawPng{3, 1, 8, PNG_COLOR_TYPE_RGB_ALPHA, {9, 8, 7, 255, 9, 8, 7, 0, 0, 0, 0, 128}});
  const Image image = load_image(path);
  EXPECT_THAT(pixel(image, 0, 0), ElementsAre(9, 8, 7));
  EXPECT_THAT(pixel(image, 1, 0), ElementsAre(255, 255, 255));
  EXPECT_GT(image.at(2, 0)[0], 100);
  EXPECT_LT(image.at(2, 0)[0], 220);
}

TEST(ImageIo, ContentDecidesNotTheName) {
  const TempDir dir;
  write_png(dir / "a.jpg", fixtures::gradient(5, 5));
  write_jpeg(dir / "b.png", fixtures::gradient(6, 5), Jpeg::rgb);
  EXPECT_EQ(load_image(dir / "a.jpg").width, 5);
  EXPECT_EQ(load_image(dir / "b.png").width, 6);
}

TEST(ImageIo, OtherFilesAreNamedForWhatTheyAre) {
  const TempDir dir;
  fixtures::write_text(dir / "note.jpg", "hello, world, this is text");
  EXPECT_THAT(message_of([&] { load_image(dir / "note.jpg"); }),
              AllOf(HasSubstr("note.jpg: neither a JPEG nor a PNG"), HasSubstr("\"hello, world, th\"")));
  fixtures::write_text(dir / "empty.jpg", "");
  EXPECT_THAT(message_of([&] { load_image(dir / "empty.jpg"); }), EndsWith("it is empty"));
  fixtures::write_text(dir / "a.gif", "GIF89a.....");
  EXPECT_THAT(message_of([&] { load_image_size(dir / "a.gif"); }), EndsWith("it is a GIF"));
  EXPECT_THAT(message_of([&] { load_image(dir / "none.jpg"); }), HasSubstr("none.jpg: no such file"));
  EXPECT_THAT(message_of([&] { load_image(dir.path()); }), EndsWith("not a file"));
}

TEST(ImageIo, TruncatedFilesAreErrors) {
  const TempDir dir;
  const Image image = fixtures::gradient(200, 150);
  const auto jpeg = dir / "a.jpg", png = dir / "a.png";
  for (const Jpeg kind : {Jpeg::rgb, Jpeg::progressive}) {
    for (const double part : {0.9, 0.5, 0.1}) {
      write_jpeg(jpeg, image, kind);
      fixtures::cut(jpeg, static_cast<std::uintmax_t>(static_cast<double>(std::filesystem::file_size(jpeg)) * part));
      EXPECT_THAT(message_of([&] { load_image(jpeg); }), AllOf(HasSubstr("a.jpg: "), HasSubstr("JPEG"))) << part;
    }
  }
  for (const double part : {0.9, 0.5, 0.1}) {
    write_png(png, image);
    fixtures::cut(png, static_cast<std::uintmax_t>(static_cast<double>(std::filesystem::file_size(png)) * part));
    EXPECT_THAT(message_of([&] { load_image(png); }), HasSubstr("a.png: broken PNG: ")) << part;
  }
  fixtures::cut(jpeg, 4);
  EXPECT_THAT(message_of([&] { load_image_size(jpeg); }), HasSubstr("a.jpg: broken JPEG: "));
}

TEST(ImageIo, AbsurdSizesAreRefusedBeforeAnythingIsAllocated) {
  const TempDir dir;
  const auto jpeg = dir / "a.jpg", png = dir / "a.png";
  write_jpeg(jpeg, fixtures::gradient(16, 16), Jpeg::rgb);
  std::vector<std::uint8_t> bytes = read_bytes(jpeg);
  for (std::size_t i = 0; i + 8 < bytes.size(); ++i) {  // the frame header: FF C0, length, depth, height, width
    if (bytes[i] == 0xff && bytes[i + 1] == 0xc0) {
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(i) + 5, 4, std::uint8_t{0xf0});
    }
  }
  EXPECT_THAT(message_of([&] { decode_image(bytes, "huge.jpg"); }),
              AllOf(HasSubstr("huge.jpg: "), HasSubstr("61680 x 61680"), HasSubstr("at most 268435456")));

  RawPng tall{900'000, 1, 1, PNG_COLOR_TYPE_GRAY, std::vector<std::uint8_t>(900'000 / 8)};
  write_raw_png(png, tall);
  EXPECT_EQ(load_image_size(png).width, 900'000);  // wide, yet not too many pixels
}

TEST(ImageIo, WritingErrorsNameTheFile) {
  const TempDir dir;
  EXPECT_THAT(message_of([&] { write_png(dir / "no/such/folder.png", blank(2, 2)); }),
              HasSubstr("folder.png: cannot be written"));
  EXPECT_THAT(message_of([&] { write_png(dir / "a.png", Image{}); }), HasSubstr("empty picture"));
}

}  // namespace
}  // namespace bbox
