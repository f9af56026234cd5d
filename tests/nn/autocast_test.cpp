#include "testing.h"

#include <bevel/core/capture.h>
#include <bevel/core/half_copy.h>
#include <bevel/core/random.h>
#include <bevel/nn/conv2d.h>
#include <bevel/nn/evonorm2d.h>
#include <bevel/nn/gradient_scaler.h>
#include <bevel/nn/linear.h>
#include <bevel/nn/optim/adam.h>
#include <bevel/nn/pool2d.h>
#include <bevel/nn/sequential.h>
#include <bevel/ops/autocast.h>
#include <bevel/ops/loss/smooth_l1.h>
#include <bevel/ops/pointwise/cast.h>

namespace bevel {
namespace {

using namespace testing;

using AutocastTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, AutocastTest, ::testing::ValuesIn(build_devices()), device_name);

nn::Sequential network(Device device) {
  manual_seed(5);
  nn::Sequential net{nn::Conv2d{3, 32, {.kernel = 3, .stride = 2, .padding = 1, .bias = false}},
                     nn::EvoNorm2d{32, {.variant = EvoNorm::S0}},
                     nn::Conv2d{32, 32, {.kernel = 3, .padding = 1}},
                     nn::EvoNorm2d{32, {.variant = EvoNorm::B0}},
                     nn::GlobalAvgPool{},
                     nn::Linear{32, 4}};
  net.to(device);
  return net;
}

Tensor pictures(Device device, std::uint64_t seed) {
  return random_tensor({3, 16, 64, 3}, {.dtype = f32, .device = device, .seed = seed});
}
Tensor boxes(Device device, std::uint64_t seed) {
  return random_tensor({3, 4}, {.dtype = f32, .device = device, .seed = seed});
}

// The optimiser writes the copies that the layers keep: they are what rounding the parameters gives.
TEST_P(AutocastTest, KeptCopiesFollowTheParameters) {
  for (const Dtype half : {bf16, f16}) {
    nn::Sequential net = network(device());
    optim::AdamW optimizer{net.parameters(), {.lr = 0.01}};
    for (std::uint64_t i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      const Tensor loss = [&] {
        const Autocast scope(half);
        return smooth_l1(net(pictures(device(), i)), boxes(device(), 10 + i));
      }();
      EXPECT_EQ(loss.dtype(), f32);
      loss.backward();
      optimizer.step();
      int copies = 0;
      for (const Tensor& parameter : net.parameters()) {
        EXPECT_EQ(parameter.grad().dtype(), f32);
        const Tensor copy = find_half_copy(parameter, half);
        if (!copy.defined()) continue;
        ++copies;
        EXPECT_TRUE(bit_equal(copy, cast(parameter.detach(), half)));
      }
      EXPECT_EQ(copies, 5);  // two weights and a bias of convolutions, weight and bias of the linear layer
    }
  }
}

// Values written from elsewhere are seen by the next forward.
TEST_P(AutocastTest, ChangedParametersAreRoundedAgain) {
  nn::Linear layer{8, 4};
  layer.to(device());
  const Tensor x = random_tensor({2, 8}, {.dtype = f32, .device = device(), .seed = 1});
  const Autocast scope(bf16);
  const Tensor before = layer(x);
  const Tensor values = random_tensor({4, 8}, {.dtype = f32, .device = device(), .seed = 2});
  no_grad([&] { layer.weight.copy_from(values); });
  const Tensor after = layer(x);
  EXPECT_FALSE(bit_equal(before, after));
  const Tensor rounded = no_grad([&] { return linear(cast(x, bf16), cast(values, bf16), cast(layer.bias, bf16)); });
  EXPECT_TRUE(bit_equal(after, rounded));
}

TEST_P(AutocastTest, ScopesNestAndEnd) {
  EXPECT_EQ(autocast_dtype(), f32);
  {
    const Autocast outer(bf16);
    EXPECT_EQ(autocast_dtype(), bf16);
    {
      const Autocast inner(f32);
      EXPECT_EQ(autocast_dtype(), f32);
    }
    EXPECT_EQ(autocast_dtype(), bf16);
  }
  EXPECT_EQ(autocast_dtype(), f32);
}

// A captured step in mixed precision gives the same bits as an eager one, void steps included.
TEST_P(AutocastTest, CapturedStepsGiveTheSameBits) {
  for (const Dtype half : {bf16, f16}) {
    const auto train = [&](bool captured) {
      nn::Sequential net = network(device());
      optim::AdamW optimizer{net.parameters(), {.lr = 0.01}};
      nn::GradientScaler scaler{net.parameters(), {.initial = 1e9, .interval = 4}};  // the first steps overflow in f16
      const auto step = [&](const Tensor& x, const Tensor& y) {
        optimizer.zero_grad();
        const Tensor loss = [&] {
          const Autocast scope(half);
          return smooth_l1(net(x), y, {.scale = scaler.scale()});
        }();
        loss.backward();
        scaler.step(optimizer);
        return loss;
      };
      auto recorded = capture(step);
      std::vector<Tensor> results;
      for (std::uint64_t i = 0; i < 25; ++i) {
        const Tensor x = pictures(device(), i);
        const Tensor y = boxes(device(), 100 + i);
        results.push_back(captured ? recorded(x, y) : step(x, y).detach());
      }
      for (const Tensor& parameter : net.parameters()) results.push_back(parameter);
      results.push_back(scaler.scale());
      if (half == f16) {
        EXPECT_GT(scaler.void_steps(), 0);
        EXPECT_LT(scaler.void_steps(), 20);
      }
      return results;
    };
    const auto eager = train(false);
    const auto captured = train(true);
    for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(bit_equal(eager[i], captured[i])) << i << " " << half;
  }
}

}  // namespace
}  // namespace bevel
