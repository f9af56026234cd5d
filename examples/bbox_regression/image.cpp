#include "image.h"

#include <algorithm>
#include <cmath>

#include <bevel/core/error.h>

namespace bbox {
namespace {

// For one output pixel along one axis: the source pixels it is made of.
struct Taps {
  int first = 0;
  std::vector<float> weights;  // sum to 1
};

std::vector<Taps> triangle_taps(int from, int to) {
  const double ratio = static_cast<double>(from) / to;
  const double reach = std::max(1.0, ratio);  // half the width of the filter, in source pixels
  std::vector<Taps> all(static_cast<std::size_t>(to));
  for (int i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * ratio;
    const int first = std::max(0, static_cast<int>(std::floor(centre - reach)));
    const int last = std::min(from - 1, static_cast<int>(std::ceil(centre + reach)));
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = first;
    double sum = 0;
    for (int s = first; s <= last; ++s) {
      const double weight = std::max(0.0, 1.0 - std::abs(s + 0.5 - centre) / reach);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
  }
  return all;
}

// One row of `image` resampled to taps.size() pixels of three floats.
void resample_row(const Image& image, int y, const std::vector<Taps>& taps, float* out) {
  for (const Taps& tap : taps) {
    const std::uint8_t* pixel = image.at(tap.first, y);
    float r = 0, g = 0, b = 0;
    for (const float weight : tap.weights) {
      r += weight * pixel[0];
      g += weight * pixel[1];
      b += weight * pixel[2];
      pixel += 3;
    }
    *out++ = r;
    *out++ = g;
    *out++ = b;
  }
}

void fill(Image& image, int x1, int y1, int x2, int y2, Colour colour) {
  x1 = std::max(x1, 0);
  y1 = std::max(y1, 0);
  x2 = std::min(x2, image.width);
  y2 = std::min(y2, image.height);
  for (int y = y1; y < y2; ++y) {
    for (int x = x1; x < x2; ++x) std::copy(colour.begin(), colour.end(), image.at(x, y));
  }
}

// Rounds to a whole pixel within reach of int arithmetic; a NaN becomes 0.
int whole(float v) {
  return std::isnan(v) ? 0 : static_cast<int>(std::lround(std::clamp(v, -1e6f, 1e6f)));
}

}  // namespace

Image blank(int width, int height, Colour colour) {
  bevel::require(width >= 1 && height >= 1, "blank: sides must be at least 1, not ", width, " x ", height);
  const std::int64_t pixels = static_cast<std::int64_t>(width) * height;
  bevel::require(pixels <= max_pixels, "blank: ", width, " x ", height, " is more than ", max_pixels, " pixels");
  Image image{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(pixels) * 3)};
  for (std::size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = colour[i % 3];
  return image;
}

Image resize(const Image& image, int width, int height) {
  bevel::require(image.width >= 1 && image.height >= 1, "resize: the picture is empty");
  Image out = blank(width, height);
  const std::vector<Taps> across = triangle_taps(image.width, width);
  const std::vector<Taps> down = triangle_taps(image.height, height);
  // Rows are needed in rising order and each by a few neighbouring output rows: a ring of resampled rows is enough.
  const std::size_t row_size = static_cast<std::size_t>(width) * 3;
  std::size_t ring = 0;
  for (const Taps& taps : down) ring = std::max(ring, taps.weights.size());
  std::vector<float> rows(ring * row_size);
  std::vector<float> sum(row_size);
  int done = 0;  // source rows before this one have been resampled
  for (int y = 0; y < height; ++y) {
    const Taps& taps = down[static_cast<std::size_t>(y)];
    const int end = taps.first + static_cast<int>(taps.weights.size());
    for (done = std::max(done, taps.first); done < end; ++done) {
      resample_row(image, done, across, &rows[static_cast<std::size_t>(done) % ring * row_size]);
    }
    std::fill(sum.begin(), sum.end(), 0.5f);  // rounds when cut to an integer
    for (std::size_t t = 0; t < taps.weights.size(); ++t) {
      const float* row = &rows[(static_cast<std::size_t>(taps.first) + t) % ring * row_size];
      for (std::size_t i = 0; i < row_size; ++i) sum[i] += taps.weights[t] * row[i];
    }
    std::uint8_t* to = out.at(0, y);
    for (std::size_t i = 0; i < row_size; ++i) to[i] = static_cast<std::uint8_t>(std::min(sum[i], 255.0f));
  }
  return out;
}

void draw_box(Image& image, const Box& box, Colour colour, int thickness) {
  const int x1 = whole(box.x1), y1 = whole(box.y1), x2 = whole(box.x2), y2 = whole(box.y2);
  if (x1 >= x2 || y1 >= y2) return;
  const int t = std::min({std::max(thickness, 1), x2 - x1, y2 - y1});
  fill(image, x1, y1, x2, y1 + t, colour);
  fill(image, x1, y2 - t, x2, y2, colour);
  fill(image, x1, y1, x1 + t, y2, colour);
  fill(image, x2 - t, y1, x2, y2, colour);
}

Image montage(std::span<const Image> images, int columns, int gap, Colour background) {
  bevel::require(!images.empty(), "montage: no picture");
  bevel::require(columns >= 1, "montage: columns must be at least 1, not ", columns);
  bevel::require(gap >= 0, "montage: gap must not be negative: ", gap);
  const int count = static_cast<int>(images.size());
  columns = std::min(columns, count);
  const int rows = (count + columns - 1) / columns;
  int cell_width = 0, cell_height = 0;
  for (const Image& image : images) {
    cell_width = std::max(cell_width, image.width);
    cell_height = std::max(cell_height, image.height);
  }
  Image sheet = blank(columns * (cell_width + gap) + gap, rows * (cell_height + gap) + gap, background);
  for (int i = 0; i < count; ++i) {
    const Image& image = images[static_cast<std::size_t>(i)];
    const int left = gap + i % columns * (cell_width + gap) + (cell_width - image.width) / 2;
    const int top = gap + i / columns * (cell_height + gap) + (cell_height - image.height) / 2;
    for (int y = 0; y < image.height; ++y) {
      std::copy_n(image.at(0, y), static_cast<std::size_t>(image.width) * 3, sheet.at(left, top + y));
    }
  }
  return sheet;
}

}  // namespace bbox
