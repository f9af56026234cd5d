// Pictures from and to files: JPEG and PNG in, PNG out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "image.h"

namespace bbox {

struct ImageSize {
  int width = 0;
  int height = 0;
};

// Reads a JPEG or PNG file; which of the two it is is told by its content, never by its name.
//   JPEG: baseline, progressive, arithmetic; grey, YCbCr, RGB, CMYK and YCCK become RGB. CMYK is taken as Adobe's
//     inverted kind when the file has Adobe's marker. An orientation in EXIF data is ignored on purpose: annotations
//     count pixels of the stored raster. A file that ends early is an error; stray bytes between markers are not.
//   PNG: palette, grey, 16 bit and alpha become RGB with 8 bits, transparent parts over white.
// Errors: a file that is missing or cannot be read, another format (named where known), broken or truncated data,
// more than max_pixels pixels. Each names the file.
Image load_image(const std::filesystem::path& path);

// The size alone, from the header. Errors: as load_image, but broken picture data goes unnoticed.
ImageSize load_image_size(const std::filesystem::path& path);

// As load_image, from bytes in memory; `name` stands for the file in messages.
Image decode_image(std::span<const std::uint8_t> bytes, const std::string& name);

// Writes an 8-bit RGB PNG. Errors: an empty picture, a file that cannot be written.
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace bbox
