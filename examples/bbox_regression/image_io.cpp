#include "image_io.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include <bevel/core/error.h>

#include "codecs.h"
#include "files.h"

namespace bbox {
namespace {

using Bytes = std::span<const std::uint8_t>;

bool has(Bytes bytes, std::size_t offset, std::string_view text) {
  return bytes.size() >= offset + text.size() && std::memcmp(bytes.data() + offset, text.data(), text.size()) == 0;
}

bool is_jpeg(Bytes bytes) {
  return has(bytes, 0, "\xff\xd8\xff");
}
bool is_png(Bytes bytes) {
  return has(bytes, 0, "\x89PNG\r\n\x1a\n");
}

// What a file is that is neither JPEG nor PNG, for the message.
std::string describe(Bytes bytes) {
  if (bytes.empty()) return "it is empty";
  if (has(bytes, 0, "GIF8")) return "it is a GIF";
  if (has(bytes, 0, "RIFF") && has(bytes, 8, "WEBP")) return "it is a WebP picture";
  if (has(bytes, 0, "BM")) return "it looks like a BMP";
  if (has(bytes, 0, "II*") || has(bytes, 0, "MM")) return "it looks like a TIFF";
  if (has(bytes, 4, "ftyp")) return "it looks like HEIC, AVIF or a video";
  std::string start;
  for (const std::uint8_t byte : bytes.first(std::min<std::size_t>(bytes.size(), 16))) {
    start += byte >= 32 && byte < 127 ? static_cast<char>(byte) : '.';
  }
  return "it begins with \"" + start + "\"";
}

}  // namespace

void check_size(std::int64_t width, std::int64_t height, const std::string& name) {
  bevel::require(width >= 1 && height >= 1, name, ": the picture is ", width, " x ", height, " pixels");
  bevel::require(width <= max_pixels / height, name, ": the picture says it is ", width, " x ", height,
                 " pixels; at most ", max_pixels, " pixels are read");
}

Image decode_image(Bytes bytes, const std::string& name) {
  if (is_jpeg(bytes)) return decode_jpeg(bytes, name);
  if (is_png(bytes)) return decode_png(bytes, name);
  bevel::fail(name, ": neither a JPEG nor a PNG picture; ", describe(bytes));
}

Image load_image(const std::filesystem::path& path) {
  return decode_image(read_bytes(path), path.string());
}

ImageSize load_image_size(const std::filesystem::path& path) {
  const std::vector<std::uint8_t> bytes = read_bytes(path);
  const std::string name = path.string();
  if (is_jpeg(bytes)) return jpeg_size(bytes, name);
  if (is_png(bytes)) return png_size(bytes, name);
  bevel::fail(name, ": neither a JPEG nor a PNG picture; ", describe(bytes));
}

void write_png(const std::filesystem::path& path, const Image& image) {
  const std::vector<std::uint8_t> bytes = encode_png(image, path.string());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  bevel::require(!file.fail(), path.string(), ": cannot be written");
}

}  // namespace bbox
