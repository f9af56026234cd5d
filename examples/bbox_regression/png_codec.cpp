#include <cstring>

#include <png.h>

#include <bevel/core/error.h>

#include "codecs.h"

namespace bbox {
namespace {

// libpng's "simplified" interface: the header, then all pixels in the format asked for.
struct Reader {
  png_image image{};

  Reader(std::span<const std::uint8_t> bytes, const std::string& name) {
    image.version = PNG_IMAGE_VERSION;
    const int ok = png_image_begin_read_from_memory(&image, bytes.data(), bytes.size());
    if (ok == 0) {
      const std::string message = image.message;
      png_image_free(&image);
      bevel::fail(name, ": broken PNG: ", message);
    }
  }
  ~Reader() { png_image_free(&image); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

}  // namespace

ImageSize png_size(std::span<const std::uint8_t> bytes, const std::string& name) {
  const Reader reader(bytes, name);
  check_size(reader.image.width, reader.image.height, name);
  return {static_cast<int>(reader.image.width), static_cast<int>(reader.image.height)};
}

Image decode_png(std::span<const std::uint8_t> bytes, const std::string& name) {
  Reader reader(bytes, name);
  check_size(reader.image.width, reader.image.height, name);
  Image out = blank(static_cast<int>(reader.image.width), static_cast<int>(reader.image.height));
  reader.image.format = PNG_FORMAT_RGB;
  // 16-bit files without a gamma of their own are photographs saved by a program, not linear light.
  reader.image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  const png_color white{255, 255, 255};
  const int ok = png_image_finish_read(&reader.image, &white, out.rgb.data(), 0, nullptr);
  bevel::require(ok != 0, name, ": broken PNG: ", reader.image.message);
  return out;
}

std::vector<std::uint8_t> encode_png(const Image& image, const std::string& name) {
  bevel::require(image.width >= 1 && image.height >= 1, name, ": cannot write an empty picture");
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::vector<std::uint8_t> bytes(size);
  const int ok = png_image_write_to_memory(&header, bytes.data(), &size, 0, image.rgb.data(), 0, nullptr);
  bevel::require(ok != 0, name, ": cannot encode PNG: ", header.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace bbox
