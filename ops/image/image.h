// Pictures as bytes, made into a network's numbers where the network runs: a picture of u8 is a quarter of the bytes
// to store, to move to a GPU and to read there.
//
// images    u8 [N, H, W, C]
// result    [N, H, W, C] of `dtype` on the same device; nothing here is differentiable
#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

// A byte b becomes (b - centre) * factor, rounded to `dtype`. Order of the fields as given.
struct PixelScale {
  double centre = 0;
  double factor = 1.0 / 255;
  Dtype dtype = f32;  // f32, bf16 or f16
};

Tensor image_to_float(const Tensor& images, const PixelScale& scale = {});

// The same for pictures that are stretched, moved, mirrored and made brighter on the way, each by its own row of
// `warps`, f32 [N, 5]: scale_x, scale_y, offset_x, offset_y, gain. Lengths are in shares of the picture's sides, x to
// the right and y downwards:
//   result at (x, y) = gain * image at ((x - offset_x) / scale_x, (y - offset_y) / scale_y), cut at 255
// so that what lay at x comes to scale_x * x + offset_x. A negative scale mirrors: scale_x = -1, offset_x = 1 flips
// left to right. Between pixels it is bilinear; pixel centres lie at half-integers. Where the result reaches beyond the
// image it is 0, which is `centre` before scaling: repeated edge pixels would draw out an object that the edge cuts.
// A scale that is 0 or NaN gives a picture of zeros.
// Error for other shapes or dtypes, or tensors on two devices.
Tensor warp_images(const Tensor& images, const Tensor& warps, const PixelScale& scale = {});

}  // namespace bevel
