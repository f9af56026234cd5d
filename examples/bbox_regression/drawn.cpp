#include "drawn.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <bevel/core/error.h>

#include "draws.h"
#include "shapes.h"

namespace bbox {
namespace {

using shapes::Point;
using Paint = std::array<float, 3>;  // 0 to 1

constexpr float pi = 3.14159265f;

Paint any_colour(Draws& draws, float low, float high) {
  return {draws.uniform(low, high), draws.uniform(low, high), draws.uniform(low, high)};
}

Paint mixed(const Paint& a, const Paint& b, float t) {
  return {a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t};
}

// The picture while it is drawn.
struct Canvas {
  int size;
  std::vector<Paint> pixels;

  explicit Canvas(int side) : size(side), pixels(static_cast<std::size_t>(side) * static_cast<std::size_t>(side)) {}
  Paint& at(int x, int y) {
    return pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(size) + static_cast<std::size_t>(x)];
  }
};

// Smooth noise in 0 ... 1: random values on a grid, blended between its points.
class Noise {
 public:
  Noise(Draws& draws, int cells) : cells_(cells) {
    const auto points = static_cast<std::size_t>(cells_) + 1;
    values_.resize(points * points);
    for (float& value : values_) value = draws.uniform();
  }

  // u and v in [0, 1).
  float operator()(float u, float v) const {
    const float x = u * static_cast<float>(cells_), y = v * static_cast<float>(cells_);
    const int i = static_cast<int>(x), j = static_cast<int>(y);
    const float s = eased(x - static_cast<float>(i)), t = eased(y - static_cast<float>(j));
    const float top = value(i, j) + (value(i + 1, j) - value(i, j)) * s;
    const float bottom = value(i, j + 1) + (value(i + 1, j + 1) - value(i, j + 1)) * s;
    return top + (bottom - top) * t;
  }

 private:
  static float eased(float t) { return t * t * (3 - 2 * t); }
  float value(int i, int j) const {
    return values_[static_cast<std::size_t>(j) * (static_cast<std::size_t>(cells_) + 1) + static_cast<std::size_t>(i)];
  }

  int cells_;
  std::vector<float> values_;
};

// Two colours blended by a gradient, coarse and fine noise and, in half of the pictures, stripes.
void paint_background(Canvas& canvas, Draws& draws) {
  const Paint one = any_colour(draws, 0.15f, 0.85f);
  const Paint other = mixed(one, any_colour(draws, 0.15f, 0.85f), 0.6f);
  const float angle = draws.uniform(0, 2 * pi);
  const float gradient = draws.uniform(0.0f, 0.5f);
  const float stripes = draws.chance(0.5f) ? draws.uniform(0.1f, 0.35f) : 0.0f;
  const float waves = draws.uniform(3.0f, 10.0f) * 2 * pi;
  const float grain = draws.uniform(0.02f, 0.08f);
  const float tilt = draws.uniform(0, 2 * pi);
  const Noise coarse(draws, 3 + draws.below(4));
  const Noise fine(draws, 11 + draws.below(8));
  const float side = static_cast<float>(canvas.size);
  for (int y = 0; y < canvas.size; ++y) {
    for (int x = 0; x < canvas.size; ++x) {
      const float u = (static_cast<float>(x) + 0.5f) / side, v = (static_cast<float>(y) + 0.5f) / side;
      const float along = (u - 0.5f) * std::cos(angle) + (v - 0.5f) * std::sin(angle);
      const float across = u * std::cos(tilt) + v * std::sin(tilt);
      const float blend = 0.35f * coarse(u, v) + 0.25f * fine(u, v) + gradient * (along + 0.5f) +
                          stripes * (0.5f + 0.5f * std::sin(waves * across));
      Paint& pixel = canvas.at(x, y);
      pixel = mixed(one, other, blend);
      const float speck = draws.uniform(-grain, grain);
      for (float& channel : pixel) channel += speck;
    }
  }
}

// Lays `colour` over the canvas where `distance(point relative to the centre)` is negative, soft over one pixel.
// Only pixels within `reach` of the centre are looked at.
template <class Distance>
void paint(Canvas& canvas, Point centre, float reach, const Paint& colour, Distance distance) {
  const int x1 = std::max(0, static_cast<int>(centre.x - reach - 1));
  const int y1 = std::max(0, static_cast<int>(centre.y - reach - 1));
  const int x2 = std::min(canvas.size - 1, static_cast<int>(centre.x + reach + 1));
  const int y2 = std::min(canvas.size - 1, static_cast<int>(centre.y + reach + 1));
  for (int y = y1; y <= y2; ++y) {
    for (int x = x1; x <= x2; ++x) {
      const Point p{static_cast<float>(x) + 0.5f - centre.x, static_cast<float>(y) + 0.5f - centre.y};
      const float cover = std::clamp(0.5f - distance(p), 0.0f, 1.0f);
      if (cover > 0) canvas.at(x, y) = mixed(canvas.at(x, y), colour, cover);
    }
  }
}

void paint_distractor(Canvas& canvas, Draws& draws) {
  const float side = static_cast<float>(canvas.size);
  const Point centre{draws.uniform(0, side), draws.uniform(0, side)};
  const float r = draws.uniform(0.06f, 0.16f) * side;
  const float angle = draws.uniform(0, 2 * pi);
  const float c = std::cos(angle), s = std::sin(angle);
  const Paint colour = any_colour(draws, 0.05f, 0.95f);
  const float slim = draws.uniform(0.4f, 1.0f);
  switch (draws.below(5)) {
    case 0:
      paint(canvas, centre, 2 * r, colour,
            [=](Point p) { return shapes::triangle(shapes::turned(p, c, s), 0.7f * r); });
      break;
    case 1:
      paint(canvas, centre, 2 * r, colour,
            [=](Point p) { return shapes::rectangle(shapes::turned(p, c, s), r, slim * r); });
      break;
    case 2:
      paint(canvas, centre, 2 * r, colour,
            [=](Point p) { return shapes::cross(shapes::turned(p, c, s), 1.2f * r, 0.35f * r); });
      break;
    case 3:
      paint(canvas, centre, 2 * r, colour, [=](Point p) { return shapes::ring(p, r, 0.15f * r); });
      break;
    default:
      paint(canvas, centre, 2 * r, colour, [=](Point p) { return shapes::ellipse(p, 0.8f * r, 0.8f * r); });
      break;
  }
}

// Half the width of the upright box around an ellipse with half-axes a (turned by the angle of c and s) and b.
float half_extent(float a, float b, float c, float s) {
  return std::sqrt(a * a * c * c + b * b * s * s);
}

Box paint_target(Canvas& canvas, Draws& draws) {
  const float side = static_cast<float>(canvas.size);
  // The longer axis spans 22 to 60 % of the side, the shorter 68 % of it or more: so no extent is below 15 %.
  const float a = draws.uniform(0.11f, 0.30f) * side;
  const float b = a * draws.uniform(0.682f, 1.0f);
  const float angle = draws.uniform(0, pi);
  const float c = std::cos(angle), s = std::sin(angle);
  const float half_width = half_extent(a, b, c, s), half_height = half_extent(b, a, c, s);
  const Point centre{draws.uniform(half_width, side - half_width), draws.uniform(half_height, side - half_height)};
  const Paint body = any_colour(draws, 0.3f, 0.9f);
  const Paint rim = mixed(body, {0.05f, 0.05f, 0.05f}, 0.8f);
  const Paint core = mixed(body, {1, 1, 1}, 0.75f);
  const auto scaled_ellipse = [=](float scale) {
    // Turned backwards, from the picture's axes to the ellipse's own.
    return [=](Point p) { return shapes::ellipse(shapes::turned(p, c, -s), a * scale, b * scale); };
  };
  paint(canvas, centre, a, rim, scaled_ellipse(1.0f));
  paint(canvas, centre, a, body, scaled_ellipse(0.78f));
  paint(canvas, centre, a, core, scaled_ellipse(0.35f));
  return {(centre.x - half_width) / side, (centre.y - half_height) / side, (centre.x + half_width) / side,
          (centre.y + half_height) / side};
}

}  // namespace

Drawn draw_picture(std::uint64_t seed, std::uint64_t index, int size) {
  bevel::require(size >= 16 && size <= 4096, "draw_picture: size must be 16 to 4096 pixels, not ", size);
  Draws draws(seed, index);
  Canvas canvas(size);
  paint_background(canvas, draws);
  for (int left = 3 + draws.below(5); left > 0; --left) paint_distractor(canvas, draws);
  Drawn drawn{blank(size, size), paint_target(canvas, draws)};
  for (std::size_t i = 0; i < canvas.pixels.size(); ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const float value = std::clamp(canvas.pixels[i][channel], 0.0f, 1.0f);
      drawn.image.rgb[i * 3 + channel] = static_cast<std::uint8_t>(std::lround(value * 255.0f));
    }
  }
  return drawn;
}

}  // namespace bbox
