#include <bevel/ops/image/image.h>

#include <bevel/ops/image/detail/warp.h>

#include <cmath>
#include <limits>

namespace bevel {

namespace {

void check_images(const char* name, const Tensor& images) {
  require(images.dtype() == u8 && images.shape().rank() == 4, name,
          ": images must be u8 [batch, height, width, channels]; got ", images.dtype(), " ", images.shape());
  require(images.numel() == 0 || (images.shape()[1] <= std::numeric_limits<std::int32_t>::max() / 2 &&
                                  images.shape()[2] <= std::numeric_limits<std::int32_t>::max() / 2),
          name, ": a side is too long; images are ", images.shape());
}

Tensor result_of(const char* name, const Tensor& images, const PixelScale& scale) {
  require(scale.dtype == f32 || is_half(scale.dtype), name, ": dtype must be f32, bf16 or f16; got ", scale.dtype);
  require(std::isfinite(scale.centre) && std::isfinite(scale.factor), name, ": centre and factor must be finite; got ",
          scale.centre, " and ", scale.factor);
  return Tensor::empty(images.shape(), {.dtype = scale.dtype, .device = images.device()});
}

detail::PixelRule rule_of(const PixelScale& scale) {
  return {static_cast<float>(scale.centre), static_cast<float>(scale.factor)};
}

}  // namespace

Tensor image_to_float(const Tensor& images, const PixelScale& scale) {
  check_images("image_to_float", images);
  const Tensor result = result_of("image_to_float", images, scale);
  on(images.device(), [&](auto backend) { detail::image_to_float(backend, rule_of(scale), images, result); });
  return result;
}

Tensor warp_images(const Tensor& images, const Tensor& warps, const PixelScale& scale) {
  check_images("warp_images", images);
  require(warps.dtype() == f32 && warps.shape() == Shape({images.shape()[0], detail::warp_numbers}),
          "warp_images: warps must be f32 [", images.shape()[0], ", ", detail::warp_numbers, "] for images of ",
          images.shape(), "; got ", warps.dtype(), " ", warps.shape());
  require(warps.device() == images.device(), "warp_images: images are on ", images.device(), ", warps are on ",
          warps.device());
  const Tensor result = result_of("warp_images", images, scale);
  if (images.numel() == 0) return result;
  on(images.device(), [&](auto backend) { detail::warp_images(backend, rule_of(scale), images, warps, result); });
  return result;
}

}  // namespace bevel
