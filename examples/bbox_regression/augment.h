// Random changes of a picture together with its box. Pictures stay bytes until they are where the network is.
#pragma once

#include <bevel/ops/image/image.h>

#include <array>
#include <cstdint>

#include "box.h"

namespace bbox {

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

// The change as a row of bevel::warp_images.
using WarpRow = std::array<float, 5>;
WarpRow warp_row(const Change& change);

// How bytes become the network's numbers: (value / 255 - 0.5) * 4, about zero mean and unit variance.
inline constexpr bevel::PixelScale network_pixels{.centre = 127.5, .factor = 4.0 / 255};

}  // namespace bbox
