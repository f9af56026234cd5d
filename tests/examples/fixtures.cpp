#include "examples/fixtures.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include <jpeglib.h>
#include <png.h>

#include <bevel/core/error.h>

namespace fixtures {
namespace fs = std::filesystem;

namespace {

struct File {
  std::FILE* handle;
  explicit File(const fs::path& path) : handle(nullptr) {
    fs::create_directories(path.parent_path());
    handle = std::fopen(path.c_str(), "wb");
    if (handle == nullptr) throw std::runtime_error("cannot write " + path.string());
  }
  ~File() { std::fclose(handle); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
};

}  // namespace

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "bbox-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

bbox::Image gradient(int width, int height) {
  bbox::Image image = bbox::blank(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.at(x, y)[0] = static_cast<std::uint8_t>(40 + 180 * x / width);
      image.at(x, y)[1] = static_cast<std::uint8_t>(40 + 180 * y / height);
      image.at(x, y)[2] = 90;
    }
  }
  return image;
}

void write_jpeg(const fs::path& path, const bbox::Image& image, Jpeg kind, int quality) {
  const File file(path);
  const bool four = kind == Jpeg::cmyk || kind == Jpeg::ycck;
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file.handle);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = kind == Jpeg::grey ? 1 : four ? 4 : 3;
  info.in_color_space = kind == Jpeg::grey ? JCS_GRAYSCALE : four ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  if (four) jpeg_set_colorspace(&info, kind == Jpeg::cmyk ? JCS_CMYK : JCS_YCCK);
  if (kind == Jpeg::progressive) jpeg_simple_progression(&info);
  info.write_Adobe_marker = four ? TRUE : FALSE;
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  const auto channels = static_cast<std::size_t>(info.input_components);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(image.width) * channels);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (std::size_t c = 0; c < channels; ++c) {
        row[static_cast<std::size_t>(x) * channels + c] = c < 3 ? image.at(x, y)[c] : 255;
      }
    }
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&info, &rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
}

void write_raw_png(const fs::path& path, const RawPng& raw, const std::vector<std::uint8_t>& triples) {
  const File file(path);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, file.handle);
  png_set_IHDR(png, info, static_cast<png_uint_32>(raw.width), static_cast<png_uint_32>(raw.height), raw.depth,
               raw.colour_type, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (std::size_t i = 0; i + 2 < triples.size(); i += 3) {
    palette.push_back({triples[i], triples[i + 1], triples[i + 2]});
  }
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  png_write_info(png, info);
  const std::size_t row_size = png_get_rowbytes(png, info);
  for (std::size_t y = 0; y < static_cast<std::size_t>(raw.height); ++y) {
    png_write_row(png, raw.data.data() + y * row_size);
  }
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
}

void cut(const fs::path& path, std::uintmax_t size) {
  fs::resize_file(path, size);
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const bevel::Error& error) {
    return error.what();
  }
  return "no error";
}

fs::path data_folder() {
  if (const char* named = std::getenv("BEVEL_DATA"); named != nullptr && *named != '\0') return named;
  const fs::path beside = fs::path(BEVEL_TEST_DATA).parent_path().parent_path() / "shared" / "data";
  return fs::is_directory(beside) ? beside : fs::path();
}

}  // namespace fixtures
