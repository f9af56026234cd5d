#include "testing.h"

#include <bevel/core/random.h>
#include <bevel/nn/gradient_scaler.h>
#include <bevel/nn/linear.h>
#include <bevel/nn/optim/adam.h>
#include <bevel/nn/optim/sgd.h>
#include <bevel/ops/autocast.h>
#include <bevel/ops/loss/smooth_l1.h>
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/pointwise/cast.h>

namespace bevel {
namespace {

using namespace testing;

using GradientScalerTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, GradientScalerTest, ::testing::ValuesIn(build_devices()), device_name);

constexpr float infinity = std::numeric_limits<float>::infinity();

Tensor leaf(const Shape& shape, Device device, std::uint64_t seed) {
  return random_tensor(shape, {.dtype = f32, .device = device, .seed = seed, .requires_grad = true});
}

// Scaling by powers of two and back changes no bit.
TEST_P(GradientScalerTest, TrainsAsWithout) {
  const auto train = [&](bool scaled) {
    const Tensor w = leaf({5, 7}, device(), 1);
    optim::AdamW optimizer{{w}, {.lr = 0.1}};
    nn::GradientScaler scaler{{w}, {.initial = 1024, .interval = 2}};
    for (std::uint64_t i = 0; i < 6; ++i) {
      optimizer.zero_grad();
      const Tensor target = random_tensor({5, 7}, {.dtype = f32, .device = device(), .seed = 10 + i});
      smooth_l1(w, target, {.scale = scaled ? NumberOrTensor(scaler.scale()) : NumberOrTensor(1.0)}).backward();
      if (scaled)
        scaler.step(optimizer);
      else
        optimizer.step();
    }
    if (scaled) {
      EXPECT_EQ(scaler.scale().item(), 1024 * 8);  // grown after steps 2, 4 and 6
    }
    return w;
  };
  EXPECT_TRUE(bit_equal(train(true), train(false)));
}

TEST_P(GradientScalerTest, AVoidStepChangesNothingButTheScale) {
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
    for (const std::int64_t place : {0, 4999, 9999}) {
      const Tensor w = leaf({10000}, device(), 1);
      const Tensor other = leaf({3}, device(), 2);
      const Tensor without = leaf({3}, device(), 3);
      optim::AdamW optimizer{{w, other, without}, {.lr = 0.1}};
      nn::GradientScaler scaler{{w, other, without}, {.initial = 64, .interval = 3}};
      const auto step = [&](float value) {
        Tensor gradient = random_tensor({10000}, {.dtype = f32, .seed = 4});
        gradient.data<float>()[place] = value;
        w.set_grad(gradient.to(device()));
        other.set_grad(random_tensor({3}, {.dtype = f32, .device = device(), .seed = 5}));
        scaler.step(optimizer);
      };
      step(1);
      const Tensor w_before = w.detach().clone();
      const Tensor other_before = other.detach().clone();
      const NamedTensors state_before = optimizer.state();
      std::vector<Tensor> kept;
      for (const NamedTensor& entry : state_before) kept.push_back(entry.tensor.clone());
      step(bad);
      EXPECT_TRUE(bit_equal(w, w_before));
      EXPECT_TRUE(bit_equal(other, other_before));
      const NamedTensors state_after = optimizer.state();
      for (std::size_t i = 0; i < kept.size(); ++i)
        EXPECT_TRUE(bit_equal(state_after[i].tensor, kept[i])) << state_after[i].name;
      EXPECT_EQ(scaler.scale().item(), 32);
      EXPECT_EQ(scaler.void_steps(), 1);
      for (int i = 0; i < 3; ++i) step(1);  // the count of good steps has started again
      EXPECT_EQ(scaler.scale().item(), 64);
      EXPECT_FALSE(bit_equal(w, w_before));
    }
}

// Gradients of 1e-7 vanish in f16 (its least number is 6e-8, and products of it are less), unless the loss is scaled.
TEST_P(GradientScalerTest, SavesSmallGradientsInF16) {
  const auto gradient = [&](bool scaled) {
    manual_seed(3);
    nn::Linear first{16, 16};
    nn::Linear second{16, 1};
    first.to(device());
    second.to(device());
    nn::GradientScaler scaler{first.parameters()};
    const Tensor x = random_tensor({32, 16}, {.dtype = f32, .device = device(), .seed = 1});
    const Tensor target = random_tensor({32, 1}, {.dtype = f32, .device = device(), .seed = 2});
    const Autocast scope(scaled ? f16 : f32);
    const NumberOrTensor scale = scaled ? NumberOrTensor(mul(scaler.scale(), 1e-4)) : NumberOrTensor(1e-4);
    const Tensor loss = smooth_l1(second(first(x)), target, {.scale = scale});
    EXPECT_EQ(loss.dtype(), f32);
    loss.backward();
    return scaled ? div(first.weight.grad(), 65536) : first.weight.grad();
  };
  const Tensor exact = gradient(false);
  EXPECT_TRUE(close(gradient(true), exact, 2e-2, 1e-9));
}

TEST_P(GradientScalerTest, StateGoesOn) {
  const Tensor w = leaf({4}, device(), 1);
  nn::GradientScaler from{{w}, {.initial = 8, .interval = 2}};
  optim::SGD optimizer{{w}, {.lr = 0.1}};
  w.set_grad(random_tensor({4}, {.dtype = f32, .device = device(), .seed = 2}));
  from.step(optimizer);
  nn::GradientScaler to{{w}, {.interval = 2}};
  to.load_state(from.state());
  EXPECT_EQ(to.scale().item(), 8);
  w.set_grad(random_tensor({4}, {.dtype = f32, .device = device(), .seed = 2}));
  to.step(optimizer);
  EXPECT_EQ(to.scale().item(), 16);
  EXPECT_TRUE(throws_error([&] { to.load_state({}); }, {"GradientScaler", "scale", "0 tensors"}));
}

TEST_P(GradientScalerTest, Errors) {
  const Tensor w = leaf({4}, device(), 1);
  EXPECT_TRUE(throws_error([&] { nn::GradientScaler{{}}; }, {"GradientScaler", "no parameters"}));
  EXPECT_TRUE(throws_error([&] { nn::GradientScaler({w}, {.initial = 0}); }, {"initial", "0"}));
  EXPECT_TRUE(throws_error([&] { nn::GradientScaler({w}, {.growth = 0.5}); }, {"growth", "0.5"}));
  EXPECT_TRUE(throws_error([&] { nn::GradientScaler({w}, {.backoff = 2}); }, {"backoff", "2"}));
  EXPECT_TRUE(throws_error([&] { nn::GradientScaler({w}, {.interval = 0}); }, {"interval", "0"}));
  EXPECT_TRUE(throws_error([&] { nn::GradientScaler({cast(w, bf16)}); }, {"f32 or f64", "bf16"}));
  EXPECT_TRUE(throws_error([&] { const Autocast scope(i32); }, {"Autocast", "i32"}));
}

}  // namespace
}  // namespace bevel
