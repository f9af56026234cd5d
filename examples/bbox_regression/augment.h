// Random changes of a picture together with its box, and pictures as numbers for the network.
#pragma once

#include <cstdint>
#include <span>

#include "box.h"
#include "image.h"

namespace bbox {

// How bytes become the network's numbers: (value / 255 - 0.5) * 4, about zero mean and unit variance.
inline constexpr float pixel_centre = 127.5f;
inline constexpr float pixel_scale = 4.0f / 255.0f;

// Writes the picture as floats, row by row with three channels a pixel (HWC); `out` has width * height * 3 places.
void to_floats(const Image& image, std::span<float> out);

// What is done to one picture. Source point = (point - offset) / scale along each axis, in shares of the side, the
// picture being mirrored left to right first where `flip` is set.
struct Change {
  bool flip = false;
  float scale_x = 1, scale_y = 1;
  float offset_x = 0, offset_y = 0;
  float brightness = 1;
};

// The recipe: flip in half of the cases; each side scaled by its own factor in 0.75 ... 1.35; the box's centre moved
// half of the way to a point drawn uniformly from the middle (0.15 ... 0.85 in x and y); brightness times 0.8 ... 1.2.
// Depends on the box and the three numbers alone. `box` is in shares of the sides.
Change draw_change(const Box& box, std::uint64_t seed, std::uint64_t epoch, std::uint64_t index);

// Where the box lies after the change, cut at the picture's edge.
Box changed(const Box& box, const Change& change);

// Resamples the picture by `change`, at its own size, straight to the network's numbers (as to_floats). Bilinear. Where
// the new picture reaches beyond the old one it is mid-grey, 0 in the network's numbers: repeated edge pixels would
// smear an object that the edge cuts out of its box. Brightness multiplies the byte values, which are cut at 255.
void change_picture(const Image& image, const Change& change, std::span<float> out);

}  // namespace bbox
