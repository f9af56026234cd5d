#include <bevel/core/parallel.h>
#include <bevel/ops/image/detail/warp.h>
#include <bevel/ops/kernel/map.h>

#include <algorithm>
#include <vector>

namespace bevel::detail {

void image_to_float(Cpu backend, const PixelRule& rule, const Tensor& images, const Tensor& result) {
  const std::uint8_t* from = images.data<std::uint8_t>();
  visit_pixels(result.dtype(), [&]<class T>() { kernel::map(backend, rule, images.numel(), result.data<T>(), from); });
}

namespace {

// One picture: rows of the source are blended first, then their pixels.
template <class T>
void warp_image(const PixelRule& rule, const std::uint8_t* image, const float* warp, std::int32_t height,
                std::int32_t width, std::size_t channels, T* out) {
  const std::size_t row_bytes = static_cast<std::size_t>(width) * channels;
  std::vector<Taps> columns(static_cast<std::size_t>(width));
  for (std::int32_t x = 0; x < width; ++x) columns[static_cast<std::size_t>(x)] = warp_taps(x, width, warp[0], warp[2]);
  const float gain = warp[4];
  std::vector<float> line(row_bytes);
  for (std::int32_t y = 0; y < height; ++y) {
    const Taps row = warp_taps(y, height, warp[1], warp[3]);
    if (!row.inside) {
      out = std::fill_n(out, row_bytes, T(0.0f));
      continue;
    }
    const std::uint8_t* upper = image + static_cast<std::size_t>(row.first) * row_bytes;
    const std::uint8_t* lower = image + static_cast<std::size_t>(row.second) * row_bytes;
    for (std::size_t i = 0; i < row_bytes; ++i) line[i] = between(upper[i], lower[i], row.part);
    for (const Taps& column : columns) {
      const float* left = &line[static_cast<std::size_t>(column.first) * channels];
      const float* right = &line[static_cast<std::size_t>(column.second) * channels];
      for (std::size_t c = 0; c < channels; ++c) {
        const float value = std::min(between(left[c], right[c], column.part) * gain, 255.0f);
        *out++ = T(column.inside ? rule(value) : 0.0f);
      }
    }
  }
}

}  // namespace

void warp_images(Cpu, const PixelRule& rule, const Tensor& images, const Tensor& warps, const Tensor& result) {
  const Shape& shape = images.shape();
  const std::int64_t picture = shape[1] * shape[2] * shape[3];
  const std::uint8_t* from = images.data<std::uint8_t>();
  const float* warp = warps.data<float>();
  visit_pixels(result.dtype(), [&]<class T>() {
    T* to = result.data<T>();
    parallel_for(shape[0], [&](std::int64_t n) {
      warp_image(rule, from + n * picture, warp + n * warp_numbers, static_cast<std::int32_t>(shape[1]),
                 static_cast<std::int32_t>(shape[2]), static_cast<std::size_t>(shape[3]), to + n * picture);
    });
  });
}

}  // namespace bevel::detail
