#include <bevel/ops/image/image.h>

#include <bevel/ops/pointwise/cast.h>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "testing.h"

namespace bevel {
namespace {

using ::testing::HasSubstr;

class ImageTest : public testing::DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, ImageTest, ::testing::ValuesIn(testing::build_devices()), testing::device_name);

Tensor random_images(const Shape& shape) {
  Tensor images = Tensor::empty(shape, {.dtype = u8});
  for (std::int64_t i = 0; i < images.numel(); ++i)
    images.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(philox(7, static_cast<std::uint64_t>(i), 0).word[0]);
  return images;
}

// The documented formula, point by point in f64: warps is a list of rows of five.
std::vector<double> warped(const Tensor& images, const std::vector<float>& warps, const PixelScale& scale) {
  const std::int64_t height = images.shape()[1], width = images.shape()[2], channels = images.shape()[3];
  const auto pixel = [&](std::int64_t n, double y, double x, std::int64_t c) {
    const auto at = [&](std::int64_t row, std::int64_t column) {
      row = std::clamp<std::int64_t>(row, 0, height - 1);
      column = std::clamp<std::int64_t>(column, 0, width - 1);
      return static_cast<double>(images.data<std::uint8_t>()[((n * height + row) * width + column) * channels + c]);
    };
    const double top = std::floor(y), left = std::floor(x), down = y - top, across = x - left;
    const auto r = static_cast<std::int64_t>(top), k = static_cast<std::int64_t>(left);
    return (1 - down) * ((1 - across) * at(r, k) + across * at(r, k + 1)) +
           down * ((1 - across) * at(r + 1, k) + across * at(r + 1, k + 1));
  };
  std::vector<double> result;
  for (std::int64_t n = 0; n < images.shape()[0]; ++n) {
    const float* warp = &warps[static_cast<std::size_t>(5 * n)];
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x) {
        const double h = static_cast<double>(height), w = static_cast<double>(width);
        const double from_x = ((static_cast<double>(x) + 0.5) / w - double{warp[2]}) / double{warp[0]};
        const double from_y = ((static_cast<double>(y) + 0.5) / h - double{warp[3]}) / double{warp[1]};
        const bool inside = from_x >= 0 && from_x <= 1 && from_y >= 0 && from_y <= 1;
        for (std::int64_t c = 0; c < channels; ++c) {
          const double value = std::min(pixel(n, from_y * h - 0.5, from_x * w - 0.5, c) * double{warp[4]}, 255.0);
          result.push_back(inside ? (value - scale.centre) * scale.factor : 0);
        }
      }
  }
  return result;
}

TEST_P(ImageTest, BytesBecomeNumbers) {
  const Tensor images = random_images({2, 3, 5, 3});
  const PixelScale scale{.centre = 127.5, .factor = 4.0 / 255};
  const Tensor result = image_to_float(images.to(device()), scale).to(cpu);
  ASSERT_EQ(result.dtype(), f32);
  ASSERT_EQ(result.shape(), images.shape());
  for (std::int64_t i = 0; i < images.numel(); ++i)
    EXPECT_NEAR(result.data<float>()[i], (images.data<std::uint8_t>()[i] - 127.5) * 4 / 255, 1e-6);
}

TEST_P(ImageTest, TheWarpThatDoesNothing) {
  const Tensor images = random_images({2, 6, 7, 4});
  const Tensor warps = Tensor::from({2, 5}, {1, 1, 0, 0, 1, 1, 1, 0, 0, 1});
  const Tensor result = warp_images(images.to(device()), warps.to(device()), {.factor = 1}).to(cpu);
  for (std::int64_t i = 0; i < images.numel(); ++i)
    EXPECT_EQ(result.data<float>()[i], images.data<std::uint8_t>()[i]) << i;
}

TEST_P(ImageTest, Mirroring) {
  const Tensor images = random_images({1, 4, 9, 1});
  const Tensor warps = Tensor::from({1, 5}, {-1, 1, 1, 0, 1});
  const Tensor result = warp_images(images.to(device()), warps.to(device()), {.factor = 1}).to(cpu);
  for (std::int64_t y = 0; y < 4; ++y)
    for (std::int64_t x = 0; x < 9; ++x)
      EXPECT_EQ(result.data<float>()[y * 9 + x], images.data<std::uint8_t>()[y * 9 + 8 - x]) << y << ' ' << x;
}

TEST_P(ImageTest, FollowsTheFormula) {
  const std::vector<float> warps = {1.3f,  0.8f, -0.1f, 0.2f, 1.15f,  //
                                    -0.9f, 1.2f, 0.97f, 0.0f, 0.8f,   //
                                    0.5f,  0.5f, 0.3f,  0.4f, 3.0f};
  for (const Shape& shape : {Shape{3, 16, 16, 3}, Shape{3, 1, 13, 1}, Shape{3, 30, 7, 5}}) {
    const Tensor images = random_images(shape);
    const Tensor rows = Tensor::from_values({3, 5}, warps);
    for (const Dtype dtype : {f32, bf16, f16}) {
      const PixelScale scale{.centre = 127.5, .factor = 4.0 / 255, .dtype = dtype};
      const Tensor result = cast(warp_images(images.to(device()), rows.to(device()), scale), f32).to(cpu);
      const std::vector<double> want = warped(images, warps, scale);
      const double tolerance = dtype == f32 ? 2e-4 : dtype == f16 ? 2e-3 : 1.2e-2;
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(result.data<float>()[i], want[i], tolerance) << shape << ' ' << dtype << ' ' << i;
    }
  }
}

TEST_P(ImageTest, NumbersThatAreNoWarpReadNothingOutside) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor images = random_images({4, 5, 5, 3}).to(device());
  Tensor warps = Tensor::empty({4, 5}, {.dtype = f32});
  const float rows[4][5] = {{0, 1, 0, 0, 1}, {nan, 1, 0, 0, 1}, {1, 1, nan, 0, 1}, {1, inf, 0, -inf, 1}};
  std::copy_n(&rows[0][0], 20, warps.data<float>());
  const Tensor result = warp_images(images, warps.to(device())).to(cpu);
  for (std::int64_t i = 0; i < result.numel(); ++i) EXPECT_EQ(result.data<float>()[i], 0) << i;
}

TEST_P(ImageTest, NoPictures) {
  const Tensor images = Tensor::empty({0, 8, 8, 3}, {.dtype = u8, .device = device()});
  const Tensor warps = Tensor::empty({0, 5}, {.dtype = f32, .device = device()});
  EXPECT_EQ(image_to_float(images).shape(), images.shape());
  EXPECT_EQ(warp_images(images, warps).shape(), images.shape());
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ImageErrorTest, SayWhatIsWrong) {
  const Tensor images = random_images({2, 4, 4, 3});
  const Tensor floats = Tensor::zeros({2, 4, 4, 3});
  const Tensor warps = Tensor::zeros({2, 5});
  EXPECT_THAT(message_of([&] { image_to_float(floats); }), HasSubstr("image_to_float: images must be u8"));
  EXPECT_THAT(message_of([&] { image_to_float(images.view({2, 48})); }), HasSubstr("[2, 48]"));
  EXPECT_THAT(message_of([&] { image_to_float(images, {.dtype = f64}); }), HasSubstr("f64"));
  EXPECT_THAT(message_of([&] { image_to_float(images, {.factor = NAN}); }), HasSubstr("finite"));
  EXPECT_THAT(message_of([&] { warp_images(images, Tensor::zeros({2, 6})); }), HasSubstr("f32 [2, 5]"));
  EXPECT_THAT(message_of([&] { warp_images(images, Tensor::zeros({3, 5})); }), HasSubstr("[3, 5]"));
  EXPECT_THAT(message_of([&] { warp_images(images, Tensor::zeros({2, 5}, {.dtype = f64})); }), HasSubstr("f64"));
}

}  // namespace
}  // namespace bevel
