#include <bevel/nn/init.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "testing.h"

namespace bevel {
namespace {

using bevel::testing::bit_equal;
using bevel::testing::DeviceTest;
using bevel::testing::throws_error;

struct Moments {
  double mean = 0;
  double deviation = 0;
  double largest = 0;
};

Moments moments(const Tensor& tensor) {
  Moments result;
  const std::vector<double> values = tensor.to_vector();
  const auto n = static_cast<double>(values.size());
  for (const double value : values) {
    result.mean += value / n;
    result.largest = std::max(result.largest, std::abs(value));
  }
  for (const double value : values) result.deviation += (value - result.mean) * (value - result.mean) / n;
  result.deviation = std::sqrt(result.deviation);
  return result;
}

TEST(InitTest, Moments) {
  Generator generator(3);
  const Tensor weight = Tensor::empty({128, 3, 3, 64});  // fan_in 576, fan_out 1152
  const auto check = [&](double deviation, bool bounded) {
    const Moments m = moments(weight);
    EXPECT_NEAR(m.mean, 0, 4 * deviation / std::sqrt(128 * 576));
    EXPECT_NEAR(m.deviation, deviation, 0.015 * deviation);
    if (bounded) {
      EXPECT_LE(m.largest, deviation * std::sqrt(3.0) * (1 + 1e-6));
      EXPECT_GE(m.largest, deviation * std::sqrt(3.0) * 0.999);
    } else {
      EXPECT_GE(m.largest, 3.5 * deviation);
    }
  };
  nn::kaiming_uniform(weight, {.nonlinearity = nn::Nonlinearity::relu}, generator);
  check(std::sqrt(2.0 / 576), true);
  nn::kaiming_normal(weight, {.fan = nn::Fan::out, .slope = 0.2, .kernel_area = 9}, generator);
  check(std::sqrt(2.0 / 1.04 / 1152), false);
  nn::xavier_uniform(weight, {.gain = 5.0 / 3, .kernel_area = 9}, generator);
  check(5.0 / 3 * std::sqrt(2.0 / (576 + 1152)), true);
  nn::xavier_normal(weight, {.kernel_area = 9}, generator);
  check(std::sqrt(2.0 / (576 + 1152)), false);
  nn::default_init(weight, {}, generator);
  check(1 / std::sqrt(3.0 * 576), true);
  nn::normal(weight, 0, 2, generator);
  check(2, false);
}

TEST(InitTest, Gains) {
  using nn::Nonlinearity;
  EXPECT_DOUBLE_EQ(nn::gain(Nonlinearity::relu), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(nn::gain(Nonlinearity::leaky_relu, std::sqrt(5.0)), std::sqrt(1.0 / 3));
  EXPECT_DOUBLE_EQ(nn::gain(Nonlinearity::tanh), 5.0 / 3);
  EXPECT_DOUBLE_EQ(nn::gain(Nonlinearity::sigmoid), 1);
  EXPECT_DOUBLE_EQ(nn::gain(Nonlinearity::linear), 1);
}

TEST(InitTest, WrongUse) {
  EXPECT_TRUE(throws_error([] { nn::kaiming_uniform(Tensor::zeros({4})); }, {"kaiming_uniform", "two axes", "[4]"}));
  EXPECT_TRUE(throws_error([] { nn::xavier_normal(Tensor::zeros({4, 4}), {.kernel_area = 0}); }, {"kernel_area"}));
  EXPECT_TRUE(throws_error([] { nn::constant(Tensor::zeros({4}, {.dtype = i32}), 1); }, {"constant", "i32"}));
}

using InitDeviceTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, InitDeviceTest, ::testing::ValuesIn(testing::build_devices()), testing::device_name);

TEST_P(InitDeviceTest, SeedDeterminesTheWeights) {
  const auto make = [&](std::uint64_t seed, Device where) {
    manual_seed(seed);
    const Tensor weight = Tensor::empty({20, 30}, {.device = where, .requires_grad = true});
    const Tensor bias = Tensor::empty({20}, {.device = where, .requires_grad = true});
    nn::default_init(weight, bias);
    EXPECT_TRUE(weight.requires_grad());
    return std::vector{weight, bias};
  };
  const auto reference = make(5, cpu);
  const auto again = make(5, device());
  EXPECT_TRUE(bit_equal(again[0], reference[0]));
  EXPECT_TRUE(bit_equal(again[1], reference[1]));
  EXPECT_FALSE(bit_equal(make(6, device())[0], reference[0]));
  EXPECT_NE(reference[0].to_vector()[0], reference[1].to_vector()[0]);
}

}  // namespace
}  // namespace bevel
