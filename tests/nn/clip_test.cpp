#include <bevel/nn/clip.h>

#include <algorithm>
#include <cmath>

#include "testing.h"

namespace bevel {
namespace {

using bevel::testing::bit_equal;
using bevel::testing::close;
using bevel::testing::DeviceTest;
using bevel::testing::random_tensor;
using bevel::testing::throws_error;

class ClipTest : public DeviceTest {
 protected:
  // Parameters of several sizes and dtypes with random gradients, and one without.
  static std::vector<Tensor> parameters() {
    std::vector<Tensor> result;
    std::uint64_t seed = 1;
    for (const Dtype dtype : {f32, f64})
      for (const Shape& shape : {Shape{}, Shape{3}, Shape{0}, Shape{70, 501}, Shape{2048}, Shape{2049}}) {
        result.push_back(Tensor::zeros(shape, {.dtype = dtype, .device = device(), .requires_grad = true}));
        result.back().set_grad(random_tensor(shape, {.dtype = dtype, .device = device(), .seed = ++seed}));
      }
    result.push_back(Tensor::zeros({4}, {.device = device(), .requires_grad = true}));
    result.push_back(result[1]);  // tied: counts once
    return result;
  }
  static std::vector<std::vector<double>> gradients(const std::vector<Tensor>& parameters) {
    std::vector<std::vector<double>> result;
    for (std::size_t i = 0; i + 2 < parameters.size(); ++i) result.push_back(parameters[i].grad().to_vector());
    return result;
  }
  static double norm(const std::vector<std::vector<double>>& values) {
    double sum = 0;
    for (const auto& array : values)
      for (const double value : array) sum += value * value;
    return std::sqrt(sum);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ClipTest, ::testing::ValuesIn(testing::build_devices()), testing::device_name);

TEST_P(ClipTest, NormIsLimited) {
  const std::vector<Tensor> tensors = parameters();
  const auto before = gradients(tensors);
  const double expected = norm(before);
  const std::uint64_t version = tensors[3].grad().version();
  const Tensor result = nn::clip_grad_norm(tensors, 2.5);
  EXPECT_EQ(result.device(), device());
  EXPECT_NEAR(result.item(), expected, 1e-9 * expected);
  EXPECT_GT(tensors[3].grad().version(), version);
  const auto after = gradients(tensors);
  for (std::size_t i = 0; i < before.size(); ++i) {
    std::vector<double> scaled = before[i];
    for (double& value : scaled) value *= 2.5 / (expected + 1e-6);
    EXPECT_TRUE(close(after[i], scaled, 1e-6, 1e-9)) << i;
  }
  EXPECT_NEAR(norm(after), 2.5, 1e-5);
}

TEST_P(ClipTest, SmallNormsStay) {
  const std::vector<Tensor> tensors = parameters();
  const Tensor before = tensors[3].grad().clone();
  nn::clip_grad_norm(tensors, 1e6);
  EXPECT_TRUE(bit_equal(tensors[3].grad(), before));
}

TEST_P(ClipTest, TheSameEveryTime) {
  const std::vector<Tensor> a = parameters();
  const std::vector<Tensor> b = parameters();
  EXPECT_TRUE(bit_equal(nn::clip_grad_norm(a, 1), nn::clip_grad_norm(b, 1)));
  EXPECT_TRUE(bit_equal(a[3].grad(), b[3].grad()));
}

TEST_P(ClipTest, NothingToClip) {
  EXPECT_EQ(nn::clip_grad_norm({}, 1).item(), 0);
  const Tensor p = Tensor::zeros({4}, {.device = device(), .requires_grad = true});
  EXPECT_EQ(nn::clip_grad_norm(std::vector{p}, 1).item(), 0);
}

TEST_P(ClipTest, NanShows) {
  const Tensor p = Tensor::zeros({2}, {.device = device(), .requires_grad = true});
  p.set_grad(Tensor::from({2}, {1, NAN}, {.device = device()}));
  EXPECT_TRUE(std::isnan(nn::clip_grad_norm(std::vector{p}, 1).item()));
  EXPECT_TRUE(std::isnan(p.grad().to_vector()[0]));
}

TEST_P(ClipTest, ValuesAreLimited) {
  const std::vector<Tensor> tensors = parameters();
  const auto before = gradients(tensors);
  nn::clip_grad_value(tensors, 0.25);
  const auto after = gradients(tensors);
  for (std::size_t i = 0; i < before.size(); ++i)
    for (std::size_t k = 0; k < before[i].size(); ++k) EXPECT_EQ(after[i][k], std::clamp(before[i][k], -0.25, 0.25));
  const Tensor p = Tensor::zeros({2}, {.device = device(), .requires_grad = true});
  p.set_grad(Tensor::from({2}, {INFINITY, NAN}, {.device = device()}));
  nn::clip_grad_value(std::vector{p}, 1);
  EXPECT_EQ(p.grad().to_vector()[0], 1);
  EXPECT_TRUE(std::isnan(p.grad().to_vector()[1]));
}

TEST(ClipErrorTest, WrongUse) {
  EXPECT_TRUE(throws_error([] { nn::clip_grad_norm({}, -1); }, {"clip_grad_norm", "-1"}));
  EXPECT_TRUE(throws_error([] { nn::clip_grad_value({}, NAN); }, {"clip_grad_value", "nan"}));
  const Tensor half = Tensor::zeros({2}, {.dtype = bf16, .requires_grad = true});
  half.set_grad(Tensor::zeros({2}, {.dtype = bf16}));
  EXPECT_TRUE(throws_error([&] { nn::clip_grad_norm(std::vector{half}, 1); }, {"f32 or f64", "bf16 [2]"}));
}

}  // namespace
}  // namespace bevel
