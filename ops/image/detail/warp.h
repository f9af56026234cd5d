// What the backends of warp_images share.
#pragma once

#include <bevel/core/hostdevice.h>
#include <bevel/core/tensor.h>

#include <cstdint>
#include <utility>

namespace bevel::detail {

inline constexpr int warp_numbers = 5;  // of a row of `warps`

struct PixelRule {
  float centre;
  float factor;

  template <class T>
  BEVEL_HD float operator()(T pixel) const {
    return (static_cast<float>(pixel) - centre) * factor;
  }
};

// Between which two source pixels along an axis an output pixel lies, how far towards the second, and whether in the
// image at all.
struct Taps {
  std::int32_t first;
  std::int32_t second;
  float part;
  bool inside;
};

// Indices are those of pixels whatever the numbers are, NaN among them.
BEVEL_HD Taps warp_taps(std::int32_t at, std::int32_t size, float scale, float offset) {
  const float side = static_cast<float>(size);
  const float source = (static_cast<float>(at) + 0.5f - offset * side) / scale;  // exact where nothing is to do
  const float last = side - 1;
  float pixel = source - 0.5f;
  pixel = pixel > 0 ? pixel : 0;
  pixel = pixel < last ? pixel : last;
  const auto first = static_cast<std::int32_t>(pixel);
  return {first, first + 1 < size ? first + 1 : first, pixel - static_cast<float>(first),
          source >= 0 && source <= side};
}

BEVEL_HD float between(float a, float b, float part) {
  return a + (b - a) * part;
}

// Calls f.operator()<T>() with the type of the result's elements.
template <class F>
void visit_pixels(Dtype dtype, F&& f) {
  visit_types<F, float, bfloat16, float16>(dtype, "image_to_float", std::forward<F>(f));
}

void image_to_float(Cpu, const PixelRule& rule, const Tensor& images, const Tensor& result);
void image_to_float(Cuda backend, const PixelRule& rule, const Tensor& images, const Tensor& result);
void warp_images(Cpu, const PixelRule& rule, const Tensor& images, const Tensor& warps, const Tensor& result);
void warp_images(Cuda backend, const PixelRule& rule, const Tensor& images, const Tensor& warps, const Tensor& result);

}  // namespace bevel::detail
