#include "augment.h"

#include <algorithm>
#include <cmath>

#include <bevel/core/error.h>

#include "draws.h"

namespace bbox {
namespace {

// Between which two source pixels an output pixel lies, how far towards the second, and whether in the picture at all.
struct Between {
  int first = 0, second = 0;
  float part = 0;
  bool inside = true;
};

// `out` holds one entry an output pixel.
void place(std::span<Between> out, float scale, float offset, bool flip) {
  const int size = static_cast<int>(out.size());
  const float side = static_cast<float>(size);
  for (int i = 0; i < size; ++i) {
    float source = ((static_cast<float>(i) + 0.5f) / side - offset) / scale * side;
    if (flip) source = side - source;
    const float pixel = std::clamp(source - 0.5f, 0.0f, side - 1);
    const int first = static_cast<int>(pixel);
    out[static_cast<std::size_t>(i)] = {first, std::min(first + 1, size - 1), pixel - static_cast<float>(first),
                                        source >= 0 && source <= side};
  }
}

void check_room(const Image& image, std::span<float> out, const char* who) {
  bevel::require(!image.rgb.empty() && out.size() == image.rgb.size(), who, ": a picture of ", image.width, " x ",
                 image.height, " pixels needs room for three numbers each, there is room for ", out.size());
}

}  // namespace

void to_floats(const Image& image, std::span<float> out) {
  check_room(image, out, "to_floats");
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = (static_cast<float>(image.rgb[i]) - pixel_centre) * pixel_scale;
  }
}

Change draw_change(const Box& box, std::uint64_t seed, std::uint64_t epoch, std::uint64_t index) {
  Draws draws(seed, index, epoch);
  Change change;
  change.flip = draws.chance(0.5f);
  change.scale_x = draws.uniform(0.75f, 1.35f);
  change.scale_y = draws.uniform(0.75f, 1.35f);
  const CentreBox centre = to_centre(box);
  const float cx = change.flip ? 1 - centre.cx : centre.cx;
  const float new_cx = cx + 0.5f * (draws.uniform(0.15f, 0.85f) - cx);
  const float new_cy = centre.cy + 0.5f * (draws.uniform(0.15f, 0.85f) - centre.cy);
  change.offset_x = new_cx - cx * change.scale_x;
  change.offset_y = new_cy - centre.cy * change.scale_y;
  change.brightness = draws.uniform(0.8f, 1.2f);
  return change;
}

Box changed(const Box& box, const Change& change) {
  const float left = change.flip ? 1 - box.x2 : box.x1;
  const float right = change.flip ? 1 - box.x1 : box.x2;
  const Box moved{left * change.scale_x + change.offset_x, box.y1 * change.scale_y + change.offset_y,
                  right * change.scale_x + change.offset_x, box.y2 * change.scale_y + change.offset_y};
  return intersect(moved, {0, 0, 1, 1});
}

void change_picture(const Image& image, const Change& change, std::span<float> out) {
  check_room(image, out, "change_picture");
  const std::size_t width = static_cast<std::size_t>(image.width);
  std::vector<Between> columns(width);
  std::vector<Between> rows(static_cast<std::size_t>(image.height));
  place(columns, change.scale_x, change.offset_x, change.flip);
  place(rows, change.scale_y, change.offset_y, false);
  std::vector<float> line(width * 3);  // the source between two of its rows
  float* to = out.data();
  for (const Between& row : rows) {
    const std::uint8_t* upper = image.at(0, row.first);
    const std::uint8_t* lower = image.at(0, row.second);
    for (std::size_t i = 0; i < line.size(); ++i) {
      const float top = static_cast<float>(upper[i]);
      line[i] = top + (static_cast<float>(lower[i]) - top) * row.part;
    }
    for (const Between& column : columns) {
      const float* left = &line[static_cast<std::size_t>(column.first) * 3];
      const float* right = &line[static_cast<std::size_t>(column.second) * 3];
      for (int c = 0; c < 3; ++c) {
        const float value = (left[c] + (right[c] - left[c]) * column.part) * change.brightness;
        *to++ = row.inside && column.inside ? (std::min(value, 255.0f) - pixel_centre) * pixel_scale : 0.0f;
      }
    }
  }
}

}  // namespace bbox
