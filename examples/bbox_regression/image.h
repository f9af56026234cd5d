// A picture in memory and what is done to it: resizing, drawing, laying out in a sheet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "box.h"

namespace bbox {

// More pixels than this in one picture are refused: such a header is broken or hostile far more often than meant.
inline constexpr std::int64_t max_pixels = std::int64_t{1} << 28;

using Colour = std::array<std::uint8_t, 3>;

// 8-bit RGB, row by row from the top, three bytes a pixel, no padding: rgb.size() == width * height * 3.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;

  std::uint8_t* at(int x, int y) { return rgb.data() + (static_cast<std::size_t>(y) * width + x) * 3; }
  const std::uint8_t* at(int x, int y) const { return rgb.data() + (static_cast<std::size_t>(y) * width + x) * 3; }
};

// A picture of one colour. Errors: a side below 1, more than max_pixels pixels.
Image blank(int width, int height, Colour colour = {0, 0, 0});

// Resamples to width x height; the sides need not keep their ratio ("squeeze").
// Filter: separable triangle, widened by the reduction factor when the picture shrinks, so that every source pixel
// counts and fine texture does not alias; growing, it is plain bilinear. Pixel centres lie at half-integers.
// Errors: a side below 1, an empty picture.
Image resize(const Image& image, int width, int height);

// Draws the outline of `box` (corner form, in pixels) inwards from its edge, `thickness` pixels wide.
// Edges are rounded to whole pixels; what lies outside the picture is not drawn.
void draw_box(Image& image, const Box& box, Colour colour, int thickness = 2);

// Lays the pictures out in rows of `columns`, each in a cell as large as the largest of them, centred, with `gap`
// pixels of `background` around every cell. Errors: no picture, columns below 1, a negative gap.
Image montage(std::span<const Image> images, int columns, int gap = 4, Colour background = {255, 255, 255});

}  // namespace bbox
