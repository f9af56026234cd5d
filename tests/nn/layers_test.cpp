#include <bevel/core/random.h>
#include <bevel/nn/activation.h>
#include <bevel/nn/conv2d.h>
#include <bevel/nn/dropout.h>
#include <bevel/nn/evonorm2d.h>
#include <bevel/nn/gradcheck.h>
#include <bevel/nn/linear.h>
#include <bevel/nn/norm.h>
#include <bevel/nn/pool2d.h>
#include <bevel/nn/sequential.h>
#include <bevel/nn/shape.h>

#include <gmock/gmock.h>

#include <cmath>

#include "testing.h"

namespace bevel {
namespace {

using bevel::testing::bit_equal;
using bevel::testing::close;
using bevel::testing::DeviceTest;
using bevel::testing::random_leaf;
using bevel::testing::random_tensor;
using bevel::testing::throws_error;

// Checks the gradients of a module on a device, in f64, and that a clone computes the same on its own tensors.
template <class M>
void check(M module, const Shape& shape, Device device) {
  module.to(f64);
  module.to(device);
  EXPECT_TRUE(gradcheck(module, {random_leaf(shape, device, 3)}));

  M copy = module.clone();
  EXPECT_EQ(copy.is_training(), module.is_training());
  const Tensor input = random_leaf(shape, device, 4);
  manual_seed(1);
  const Tensor expected = module(input);
  manual_seed(1);
  EXPECT_TRUE(bit_equal(copy(input), expected));
  ASSERT_EQ(copy.state().size(), module.state().size());
  for (std::size_t i = 0; i < copy.state().size(); ++i) {
    EXPECT_EQ(copy.state()[i].name, module.state()[i].name);
    EXPECT_FALSE(same(copy.state()[i].tensor, module.state()[i].tensor));
    EXPECT_EQ(copy.state()[i].tensor.requires_grad(), module.state()[i].tensor.requires_grad());
  }
}

std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> result;
  for (const NamedTensor& entry : tensors) result.push_back(entry.name);
  return result;
}

using LayerTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, LayerTest, ::testing::ValuesIn(testing::build_devices()), testing::device_name);

TEST_P(LayerTest, Linear) {
  check(nn::Linear{3, 2}, {4, 3}, device());
  check(nn::Linear{3, 2, {.bias = false}}, {2, 2, 3}, device());
  check(nn::Linear{3, 2, {.activation = Activation::silu}}, {4, 3}, device());
}

TEST_P(LayerTest, Conv2d) {
  check(nn::Conv2d{2, 4, {.kernel = 3, .stride = 2, .padding = 1}}, {2, 5, 4, 2}, device());
  check(nn::Conv2d{4, 2, {.kernel = {1, 2}, .dilation = 2, .groups = 2, .bias = false, .layout = Layout::nchw}},
        {1, 4, 3, 4}, device());
}

TEST_P(LayerTest, EvoNorm2d) {
  check(nn::EvoNorm2d{4, {.variant = EvoNorm::S0, .groups = 2}}, {2, 3, 2, 4}, device());
  check(nn::EvoNorm2d{4, {.variant = EvoNorm::B0, .layout = Layout::nchw}}, {3, 4, 2, 3}, device());
  nn::EvoNorm2d evaluated{4, {.variant = EvoNorm::B0}};
  evaluated.eval();
  check(std::move(evaluated), {3, 2, 3, 4}, device());
  check(nn::EvoNorm2d{4, {.variant = EvoNorm::B0, .nonlinearity = false}}, {1, 2, 3, 4}, device());
}

TEST_P(LayerTest, ShapesAndPools) {
  check(nn::Flatten{}, {2, 3, 2}, device());
  check(nn::GlobalAvgPool{}, {2, 3, 2, 2}, device());
  check(nn::MaxPool2d{2}, {1, 4, 4, 2}, device());
  check(nn::MaxPool2d{3, {.stride = 2, .padding = 1}}, {1, 5, 4, 2}, device());
  check(nn::AvgPool2d{{2, 1}, {.stride = 1, .layout = Layout::nchw}}, {1, 2, 3, 3}, device());
  check(nn::GlobalAvgPool{Layout::nchw}, {2, 3, 2, 2}, device());
}

TEST_P(LayerTest, Activations) {
  const Shape shape{3, 4};
  check(nn::ReLU{}, shape, device());
  check(nn::LeakyReLU{0.2}, shape, device());
  check(nn::SiLU{}, shape, device());
  check(nn::GELU{}, shape, device());
  check(nn::Tanh{}, shape, device());
  check(nn::Sigmoid{}, shape, device());
  check(nn::Softplus{}, shape, device());
  nn::LeakyReLU leaky{0.5};
  EXPECT_EQ(leaky(Tensor::from({2}, {-2, 3}, {.device = device()})).to_vector(), (std::vector<double>{-1, 3}));
}

TEST_P(LayerTest, Dropout) {
  check(nn::Dropout{0.3}, {5, 4}, device());
  nn::Dropout layer{0.25};
  const Tensor ones = Tensor::from_values({10000}, std::vector<float>(10000, 1)).to(device());
  int kept = 0;
  for (const double value : layer(ones).to_vector()) {
    EXPECT_TRUE(value == 0 || std::abs(value - 4.0 / 3) < 1e-6);
    kept += value != 0;
  }
  EXPECT_NEAR(kept, 7500, 200);
  EXPECT_FALSE(bit_equal(layer(ones), layer(ones)));
  layer.eval();
  EXPECT_TRUE(bit_equal(layer(ones), ones));
  EXPECT_TRUE(throws_error([] { nn::Dropout{1.5}; }, {"Dropout", "1.5"}));
}

// In f64 against the formula, in both layouts.
TEST_P(LayerTest, BatchNorm2d) {
  for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
    const Shape shape{3, 2, 2, 2};
    check(nn::BatchNorm2d{2, {.layout = layout}}, shape, device());
    nn::BatchNorm2d evaluated{2, {.layout = layout}};
    evaluated.eval();
    check(std::move(evaluated), shape, device());
    check(nn::BatchNorm2d{2, {.layout = layout, .activation = Activation::silu}}, shape, device());
    check(nn::BatchNorm2d{2, {.layout = layout, .affine = false}}, shape, device());
  }
  nn::BatchNorm2d norm{1, {.eps = 0, .momentum = 0.25}};
  norm.to(device());
  const Tensor x = Tensor::from({2, 1, 2, 1}, {1, 3, 5, 7}, {.device = device()});
  const double deviation = std::sqrt(5.0);
  EXPECT_TRUE(close(norm(x), {-3 / deviation, -1 / deviation, 1 / deviation, 3 / deviation}));
  EXPECT_TRUE(close(norm.running_mean, {0.25 * 4}));
  EXPECT_TRUE(close(norm.running_var, {0.75 + 0.25 * 20 / 3}));
  norm.eval();
  EXPECT_TRUE(close(norm(x), {0 / std::sqrt(0.75 + 5.0 / 3), 2 / std::sqrt(0.75 + 5.0 / 3),
                              4 / std::sqrt(0.75 + 5.0 / 3), 6 / std::sqrt(0.75 + 5.0 / 3)}));
  EXPECT_TRUE(close(norm.running_mean, {1}));
  norm.train();
  EXPECT_TRUE(throws_error([&] { norm(Tensor::zeros({1, 1, 1, 1})); }, {"BatchNorm2d", "more than one value"}));
  EXPECT_TRUE(throws_error([&] { norm(Tensor::zeros({1, 1, 1, 2})); }, {"BatchNorm2d", "1 channels", "[1, 1, 1, 2]"}));
}

TEST_P(LayerTest, GroupNorm) {
  check(nn::GroupNorm{2, 4}, {2, 2, 3, 4}, device());
  check(nn::GroupNorm{2, 4, {.layout = Layout::nchw}}, {2, 4, 3, 1}, device());
  check(nn::GroupNorm{2, 4, {.activation = Activation::relu}}, {2, 2, 3, 4}, device());
  check(nn::GroupNorm{2, 4, {.affine = false}}, {2, 2, 3, 4}, device());
  nn::GroupNorm norm{2, 4, {.eps = 0}};
  norm.to(device());
  const Tensor x = Tensor::from({1, 1, 1, 4}, {1, 3, 10, 30}, {.device = device()});
  EXPECT_TRUE(close(norm(x), {-1, 1, -1, 1}));
  EXPECT_TRUE(throws_error([] { nn::GroupNorm{3, 4}; }, {"GroupNorm", "divide the 4", "3"}));
  EXPECT_TRUE(throws_error([&] { norm(Tensor::zeros({4, 4}, {.device = device()})); }, {"GroupNorm", "4 axes"}));
}

// The state of one norm in another: the same results, in a half type as well.
TEST_P(LayerTest, NormStateRoundTrip) {
  const Tensor x = random_tensor({4, 3, 3, 6}, {.dtype = bf16, .device = device(), .seed = 5});
  nn::BatchNorm2d norm{6, {.activation = Activation::relu}}, other{6, {.activation = Activation::relu}};
  norm.to(device());
  other.to(device());
  for (int step = 0; step < 3; ++step) EXPECT_EQ(norm(x).dtype(), bf16);
  EXPECT_THAT(names(norm.state()), ::testing::ElementsAre("weight", "bias", "running_mean", "running_var"));
  EXPECT_EQ(norm.running_mean.dtype(), f32);
  other.load_state(norm.state());
  norm.eval();
  other.eval();
  EXPECT_TRUE(bit_equal(other(x), norm(x)));
  EXPECT_TRUE((nn::GroupNorm{2, 4, {.affine = false}}.state().empty()));
}

// The network of the documentation.
TEST_P(LayerTest, BoxNetwork) {
  nn::Sequential net{nn::Conv2d{3, 32, {.kernel = 3, .stride = 2, .padding = 1}},
                     nn::EvoNorm2d{32, {.variant = EvoNorm::S0}}, nn::GlobalAvgPool{}, nn::Linear{32, 4}};
  net.to(device());
  const Tensor images = random_tensor({2, 8, 8, 3}, {.dtype = f32, .device = device()});
  EXPECT_EQ(net(images).shape(), (Shape{2, 4}));
  EXPECT_THAT(names(net.state()),
              ::testing::ElementsAre("0.weight", "0.bias", "1.weight", "1.bias", "1.v", "3.weight", "3.bias"));
  EXPECT_EQ(net.num_parameters(), 32 * 27 + 32 + 3 * 32 + 4 * 32 + 4);
}

TEST(LayerStartTest, Values) {
  manual_seed(3);
  const nn::Conv2d conv{8, 16, {.kernel = 3}};
  for (const double value : conv.weight.to_vector()) EXPECT_LE(std::abs(value), 1 / std::sqrt(72.0));
  EXPECT_EQ(conv.weight.shape(), (Shape{16, 3, 3, 8}));
  EXPECT_EQ((nn::Conv2d{8, 16, {.kernel = {1, 3}, .groups = 4}}.weight.shape()), (Shape{16, 1, 3, 2}));
  const nn::EvoNorm2d norm{2, {.variant = EvoNorm::B0, .zero_gamma = true}};
  EXPECT_EQ(norm.weight.to_vector(), (std::vector<double>{0, 0}));
  EXPECT_EQ(norm.bias.to_vector(), (std::vector<double>{0, 0}));
  EXPECT_EQ(norm.v.to_vector(), (std::vector<double>{1, 1}));
  EXPECT_EQ(norm.running_var.to_vector(), (std::vector<double>{1, 1}));
  EXPECT_FALSE(norm.running_var.requires_grad());
  EXPECT_FALSE((nn::EvoNorm2d{2, {.variant = EvoNorm::S1, .groups = 1}}.v.defined()));
}

TEST(LayerStartTest, WrongUse) {
  EXPECT_TRUE(throws_error([] { nn::Linear{0, 4}; }, {"Linear", "0 and 4"}));
  EXPECT_TRUE(throws_error([] { nn::Conv2d{3, 4, {.groups = 2}}; }, {"Conv2d", "groups must divide the 3 input"}));
  EXPECT_TRUE(throws_error([] { nn::Conv2d{3, 4, {.kernel = 0}}; }, {"Conv2d", "kernel", "(0, 0)"}));
  EXPECT_TRUE(throws_error([] { nn::Conv2d{3, 4, {.padding = {0, -1}}}; }, {"Conv2d", "padding", "(0, -1)"}));
  EXPECT_TRUE(throws_error([] { nn::EvoNorm2d{12}; }, {"EvoNorm2d", "groups must divide the 12", "8"}));
  EXPECT_TRUE(
      throws_error([] { nn::EvoNorm2d{12, {.group_size = 5}}; }, {"EvoNorm2d", "group_size must divide the 12", "5"}));
  EXPECT_TRUE(throws_error([] { nn::EvoNorm2d{12, {.group_size = -4}}; }, {"group_size", "-4"}));
  EXPECT_TRUE(throws_error([] { nn::EvoNorm2d{8, {.momentum = 2}}; }, {"EvoNorm2d", "momentum"}));
  EXPECT_TRUE(throws_error([] { nn::EvoNorm2d{8, {.eps = -1}}; }, {"EvoNorm2d", "eps"}));
  EXPECT_TRUE(throws_error([] { nn::BatchNorm2d{8, {.eps = -1}}; }, {"BatchNorm2d", "eps", "-1"}));
  EXPECT_TRUE(throws_error([] { nn::BatchNorm2d{8, {.momentum = 2}}; }, {"BatchNorm2d", "momentum"}));
  EXPECT_TRUE(
      throws_error([] { nn::GroupNorm{2, 8, {.activation = Activation::gelu}}; }, {"GroupNorm", "relu", "gelu"}));
  EXPECT_TRUE(throws_error([] { nn::GlobalAvgPool{}(Tensor::zeros({2, 3})); }, {"global_avg_pool", "4 axes"}));
  EXPECT_TRUE(throws_error([] { nn::Flatten{}(Tensor::zeros({})); }, {"Flatten"}));
  nn::Linear layer{3, 4};
  EXPECT_TRUE(throws_error([&] { gradcheck(layer, {random_leaf({1, 3})}); }, {"gradcheck", "'weight' must be f64"}));
}

// --- gradcheck of modules ---

struct Tied : nn::Module {
  Tied() { second.weight = first.weight; }
  Tensor forward(const Tensor& input) override { return second(first(input)); }
  void visit(nn::Visitor& v) override {
    v("first", first);
    v("second", second);
  }
  nn::Linear first{2, 2};
  nn::Linear second{2, 2};
};

TEST(ModuleGradcheckTest, TiedParameters) {
  Tied module;
  module.to(f64);
  const Tensor weight = module.first.weight;
  EXPECT_TRUE(gradcheck(module, {random_leaf({3, 2})}));
  EXPECT_TRUE(same(module.first.weight, weight) && same(module.second.weight, weight));
}

TEST(ModuleGradcheckTest, BuffersStay) {
  nn::EvoNorm2d norm{2, {.variant = EvoNorm::B0}};
  norm.to(f64);
  EXPECT_TRUE(gradcheck(norm, {random_leaf({2, 2, 2, 2})}));
  EXPECT_EQ(norm.running_var.to_vector(), (std::vector<double>{1, 1}));
}

TEST(ModuleGradcheckTest, FindsAWrongParameterGradient) {
  // The second forward of the numeric side changes with the weight; the analytic side sees it through a detach only.
  struct Detached : nn::Module {
    Tensor forward(const Tensor& input) override {
      nn::Linear copy = linear.clone();
      copy.weight = linear.weight.detach();
      copy.bias = linear.bias;
      return copy(input);
    }
    void visit(nn::Visitor& v) override { v("linear", linear); }
    nn::Linear linear{2, 2};
  } module;
  module.to(f64);
  const GradcheckReport report = gradcheck(module, {random_leaf({3, 2})});
  EXPECT_FALSE(report.passed);
  EXPECT_NE(report.text.find("input 1 at (0, 0)"), std::string::npos) << report.text;
}

}  // namespace
}  // namespace bevel
