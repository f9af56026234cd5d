// The two picture formats behind image_io.h. `name` stands for the file in messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "image_io.h"

namespace bbox {

Image decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name);
ImageSize jpeg_size(std::span<const std::uint8_t> bytes, const std::string& name);

Image decode_png(std::span<const std::uint8_t> bytes, const std::string& name);
ImageSize png_size(std::span<const std::uint8_t> bytes, const std::string& name);
std::vector<std::uint8_t> encode_png(const Image& image, const std::string& name);

// Error where a header promises nothing or too much.
void check_size(std::int64_t width, std::int64_t height, const std::string& name);

}  // namespace bbox
