#include <bevel/ops/image/detail/warp.h>
#include <bevel/core/cuda/launch.cuh>
#include <bevel/ops/kernel/map.cuh>

#include <algorithm>

namespace bevel::detail {

void image_to_float(Cuda backend, const PixelRule& rule, const Tensor& images, const Tensor& result) {
  const std::uint8_t* from = images.data<std::uint8_t>();
  visit_pixels(result.dtype(), [&]<class T>() { kernel::map(backend, rule, images.numel(), result.data<T>(), from); });
}

namespace {

constexpr int threads = 256;

// A thread makes one pixel at a time.
template <class T>
__global__ void __launch_bounds__(threads)
    warp_kernel(PixelRule rule, const std::uint8_t* images, const float* warps, std::int64_t pixels,
                std::int32_t height, std::int32_t width, std::int32_t channels, T* out) {
  gpu::begin_kernel();
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < pixels;
       i += std::int64_t{gridDim.x} * threads) {
    const std::int64_t row = i / width;
    const std::int64_t n = row / height;
    const float* warp = warps + n * warp_numbers;
    const Taps across = warp_taps(static_cast<std::int32_t>(i - row * width), width, warp[0], warp[2]);
    const Taps down = warp_taps(static_cast<std::int32_t>(row - n * height), height, warp[1], warp[3]);
    const std::uint8_t* image = images + n * height * width * channels;
    const std::uint8_t* upper = image + std::int64_t{down.first} * width * channels;
    const std::uint8_t* lower = image + std::int64_t{down.second} * width * channels;
    const std::int64_t left = std::int64_t{across.first} * channels;
    const std::int64_t right = std::int64_t{across.second} * channels;
    const bool inside = across.inside && down.inside;
    for (std::int32_t c = 0; c < channels; ++c) {
      float value = 0;
      if (inside) {
        const float blended = between(between(upper[left + c], lower[left + c], down.part),
                                      between(upper[right + c], lower[right + c], down.part), across.part);
        const float bright = blended * warp[4];
        value = rule(bright < 255.0f ? bright : 255.0f);
      }
      out[i * channels + c] = T(value);
    }
  }
}

}  // namespace

void warp_images(Cuda backend, const PixelRule& rule, const Tensor& images, const Tensor& warps, const Tensor& result) {
  const gpu::DeviceGuard guard(backend.device);
  const Shape& shape = images.shape();
  const std::int64_t pixels = shape[0] * shape[1] * shape[2];
  const std::int64_t most = std::int64_t{8} * gpu::multiprocessors(backend.device);
  const auto blocks = static_cast<unsigned>(std::min((pixels + threads - 1) / threads, most));
  visit_pixels(result.dtype(), [&]<class T>() {
    gpu::launch(warp_kernel<T>, {.blocks = blocks, .threads = threads, .stream = gpu::stream(backend)}, "warp_kernel",
                rule, images.data<std::uint8_t>(), warps.data<float>(), pixels, static_cast<std::int32_t>(shape[1]),
                static_cast<std::int32_t>(shape[2]), static_cast<std::int32_t>(shape[3]), result.data<T>());
  });
}

}  // namespace bevel::detail
