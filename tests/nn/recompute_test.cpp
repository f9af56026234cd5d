#include <bevel/core/capture.h>
#include <bevel/core/random.h>
#include <bevel/nn/conv2d.h>
#include <bevel/nn/evonorm2d.h>
#include <bevel/nn/linear.h>
#include <bevel/nn/norm.h>
#include <bevel/nn/optim/adam.h>
#include <bevel/nn/pool2d.h>
#include <bevel/nn/sequential.h>
#include <bevel/ops/autocast.h>
#include <bevel/ops/loss/smooth_l1.h>

#include <testing.h>

#include <memory>

namespace bevel {
namespace {

using testing::bit_equal;
using testing::DeviceTest;
using testing::random_tensor;
using testing::throws_error;

enum class Kind { evo, batch, group };

struct NetCase {
  Kind kind = Kind::evo;
  EvoNorm norm = EvoNorm::S0;  // of evo
  Layout layout = Layout::nhwc;
  Dtype dtype = f32;
  bool training = true;
  bool captured = false;
};

// The beginning of the box regressor, with or without recomputed norms, and some steps of its training.
struct Trained {
  Trained(const NetCase& c, Device device, bool recompute) {
    manual_seed(7);
    std::int64_t from = 3;
    for (const std::int64_t to : {16, 16, 32}) {
      net.push_back(nn::Conv2d{from, to, {.kernel = 3, .stride = from == 3 ? 2 : 1, .padding = 1, .layout = c.layout}});
      if (c.kind == Kind::evo)
        net.push_back(nn::EvoNorm2d{to, {.variant = c.norm, .groups = 4, .layout = c.layout, .recompute = recompute}});
      else if (c.kind == Kind::batch)
        net.push_back(
            nn::BatchNorm2d{to, {.layout = c.layout, .activation = Activation::relu, .recompute = recompute}});
      else
        net.push_back(
            nn::GroupNorm{4, to, {.layout = c.layout, .activation = Activation::silu, .recompute = recompute}});
      from = to;
    }
    net.push_back(nn::GlobalAvgPool{c.layout});
    net.push_back(nn::Linear{from, 4});
    net.to(device);
    net.train(c.training);
    optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
    const auto body = [&](const Tensor& x, const Tensor& boxes) {
      optimizer.zero_grad();
      Tensor loss = [&] {
        const Autocast scope(c.dtype);
        return smooth_l1(net(x), boxes, {.beta = 0.1});
      }();
      loss.backward();
      optimizer.step();
      return loss;
    };
    auto step = capture(body);
    const Shape shape = c.layout == Layout::nhwc ? Shape{4, 20, 20, 3} : Shape{4, 3, 20, 20};
    for (std::uint64_t i = 0; i < 4; ++i) {
      const Tensor x = random_tensor(shape, {.dtype = f32, .device = device, .seed = 10 + i});
      const Tensor boxes = random_tensor({4, 4}, {.dtype = f32, .device = device, .seed = 20 + i});
      results.push_back(c.captured ? step(x, boxes) : body(x, boxes).detach());
    }
    for (const Tensor& parameter : net.parameters()) results.push_back(parameter.grad());
    for (const NamedTensor& entry : net.state()) results.push_back(entry.tensor);
  }

  nn::Sequential net;
  std::vector<Tensor> results;
};

class RecomputeTest : public DeviceTest {
 protected:
  void expect_same_bits(const NetCase& c) {
    const Trained with(c, device(), true), without(c, device(), false);
    ASSERT_EQ(with.results.size(), without.results.size());
    for (std::size_t i = 0; i < with.results.size(); ++i)
      EXPECT_TRUE(bit_equal(with.results[i], without.results[i])) << c.norm << " " << c.layout << " " << c.dtype;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, RecomputeTest, ::testing::ValuesIn(testing::build_devices()), testing::device_name);

TEST_P(RecomputeTest, TrainingHasTheSameBits) {
  for (const EvoNorm norm : {EvoNorm::B0, EvoNorm::B1, EvoNorm::B2, EvoNorm::S0, EvoNorm::S1, EvoNorm::S2})
    for (const Layout layout : {Layout::nhwc, Layout::nchw}) expect_same_bits({.norm = norm, .layout = layout});
}

TEST_P(RecomputeTest, HalfPrecisionAndEvaluationHaveTheSameBits) {
  for (const EvoNorm norm : {EvoNorm::B0, EvoNorm::S0}) {
    expect_same_bits({.norm = norm, .dtype = bf16});
    expect_same_bits({.norm = norm, .training = false});
  }
}

TEST_P(RecomputeTest, BatchAndGroupNormHaveTheSameBits) {
  for (const Kind kind : {Kind::batch, Kind::group}) {
    for (const Layout layout : {Layout::nhwc, Layout::nchw}) expect_same_bits({.kind = kind, .layout = layout});
    expect_same_bits({.kind = kind, .dtype = bf16, .captured = true});
    expect_same_bits({.kind = kind, .training = false});
  }
}

TEST_P(RecomputeTest, CapturedTrainingHasTheSameBits) {
  for (const EvoNorm norm : {EvoNorm::B0, EvoNorm::S0}) {
    expect_same_bits({.norm = norm, .captured = true});
    expect_same_bits({.norm = norm, .dtype = bf16, .captured = true});
  }
}

// Bytes held at the end of the forward pass and at the most until the end of the backward pass.
struct Held {
  std::size_t kept, peak;
};
Held hold(Device device, bool recompute) {
  manual_seed(1);
  nn::Sequential net;
  for (int layer = 0; layer < 6; ++layer) {
    net.push_back(nn::Conv2d{16, 16, {.kernel = 3, .padding = 1, .bias = false}});
    net.push_back(nn::EvoNorm2d{16, {.groups = 4, .recompute = recompute}});
  }
  net.push_back(nn::GlobalAvgPool{});
  net.to(device);
  const Tensor x = random_tensor({8, 32, 32, 16}, {.dtype = f32, .device = device});
  const Tensor upstream = random_tensor({8, 16}, {.dtype = f32, .device = device});
  net(x).backward(upstream);  // whatever is made once
  net.zero_grad();
  release_cached_memory(device);
  const std::size_t before = memory_stats(device).live;
  reset_peak_memory(device);
  const Tensor y = net(x);
  const std::size_t kept = memory_stats(device).live - before;
  y.backward(upstream);
  return {kept, memory_stats(device).peak - before};
}

TEST_P(RecomputeTest, HalvesWhatIsKept) {
  const auto picture = static_cast<double>(8 * 32 * 32 * 16 * 4);
  const Held without = hold(device(), false), with = hold(device(), true);
  EXPECT_NEAR(static_cast<double>(without.kept) / picture, 11, 0.3);
  EXPECT_NEAR(static_cast<double>(with.kept) / picture, 6, 0.3);
  EXPECT_LT(static_cast<double>(with.peak) / picture, static_cast<double>(without.peak) / picture - 2.5);
}

TEST_P(RecomputeTest, AParameterChangedBeforeBackwardIsAnError) {
  nn::Sequential net{nn::EvoNorm2d{8, {.groups = 4, .recompute = true}}, nn::Conv2d{8, 8, {.kernel = 3, .padding = 1}}};
  net.to(device());
  const Tensor y = net(random_tensor({2, 6, 6, 8}, {.dtype = f32, .device = device()}));
  const Tensor bias = net.at<nn::EvoNorm2d>(0).bias;
  no_grad([&] { bias.copy_from(Tensor::zeros({8}, bias.options())); });
  EXPECT_TRUE(throws_error([&] { y.backward(random_tensor(y.shape(), {.dtype = f32, .device = device()})); },
                           {"conv2d", "computed again", "changed in place"}));
}

}  // namespace
}  // namespace bevel
