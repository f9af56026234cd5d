#include "ops/autocast_check.h"
#include "testing.h"

#include <bevel/core/parallel.h>
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/matmul/linear.h>
#include <bevel/ops/pointwise/cast.h>
#include <bevel/ops/pointwise/unary.h>
#include <bevel/ops/reduction/sum.h>

namespace bevel {
namespace {

using namespace testing;

using LinearTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, LinearTest, ::testing::ValuesIn(build_devices()), device_name);

std::vector<double> plain(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const auto x = input.to_vector();
  const auto w = weight.to_vector();
  const auto b = bias.defined() ? bias.to_vector() : std::vector<double>(static_cast<std::size_t>(weight.size(0)));
  const auto in = static_cast<std::size_t>(weight.size(1));
  std::vector<double> result;
  for (std::size_t row = 0; row < x.size() / in; ++row)
    for (std::size_t o = 0; o < b.size(); ++o) {
      double sum = b[o];
      for (std::size_t i = 0; i < in; ++i) sum += x[row * in + i] * w[o * in + i];
      result.push_back(sum);
    }
  return result;
}

TEST_P(LinearTest, ValuesOverShapesAndDtypes) {
  for (const Shape& shape : {Shape{7}, Shape{5, 7}, Shape{2, 3, 7}, Shape{0, 7}, Shape{300, 7}})
    for (const Dtype dtype : {f32, f64, bf16, f16})
      for (const bool with_bias : {false, true}) {
        const Tensor input = random_tensor(shape, {.dtype = dtype, .device = device(), .seed = 1});
        const Tensor weight = random_tensor({4, 7}, {.dtype = dtype, .device = device(), .seed = 2});
        const Tensor bias = with_bias ? random_tensor({4}, {.dtype = dtype, .device = device(), .seed = 3}) : Tensor();
        const Tensor result = linear(input, weight, bias);
        EXPECT_EQ(result.shape(), shape.replaced(shape.rank() - 1, 4));
        const double tolerance = dtype == bf16 ? 2e-2 : dtype == f16 ? 2e-3 : dtype == f32 ? 1e-5 : 1e-12;
        EXPECT_TRUE(close(result, plain(input, weight, bias), tolerance, tolerance)) << shape << " " << dtype;
      }
}

TEST_P(LinearTest, Gradients) {
  const auto f = [](const std::vector<Tensor>& in) { return linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor()); };
  for (const Shape& shape : {Shape{3}, Shape{4, 3}, Shape{2, 2, 3}}) {
    const Tensor input = random_leaf(shape, device(), 1);
    const Tensor weight = random_leaf({5, 3}, device(), 2);
    const Tensor bias = random_leaf({5}, device(), 3);
    EXPECT_TRUE(gradcheck(f, {input, weight, bias})) << shape;
    EXPECT_TRUE(gradgradcheck(f, {input, weight, bias})) << shape;
    EXPECT_TRUE(gradcheck(f, {input, weight})) << shape;
  }
}

TEST_P(LinearTest, ActivationsAreThoseOfTheOperators) {
  struct Row {
    Activation activation;
    Tensor (*function)(const Tensor&);
  };
  for (const Row& row : {Row{Activation::relu, relu}, Row{Activation::silu, silu}, Row{Activation::gelu, gelu}})
    for (const Dtype dtype : {f32, f64, bf16, f16})
      for (const bool with_bias : {false, true}) {
        const auto leaf = [&](const Shape& shape, std::uint64_t seed) {
          return random_tensor(shape, {.dtype = dtype, .device = device(), .seed = seed, .requires_grad = true});
        };
        const auto run = [&](const auto& f) {
          const Tensor input = leaf({64, 24}, 1);
          const Tensor weight = leaf({32, 24}, 2);
          const Tensor bias = with_bias ? leaf({32}, 3) : Tensor();
          const Tensor y = f(input, weight, bias);
          y.backward(random_tensor({64, 32}, {.dtype = dtype, .device = device(), .seed = 4}));
          std::vector<Tensor> all{y, input.grad(), weight.grad()};
          if (with_bias) all.push_back(bias.grad());
          return all;
        };
        const auto fused =
            run([&](const Tensor& x, const Tensor& w, const Tensor& b) { return linear(x, w, b, row.activation); });
        const auto apart =
            run([&](const Tensor& x, const Tensor& w, const Tensor& b) { return row.function(linear(x, w, b)); });
        const double t = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : dtype == f16 ? 4e-3 : 3e-2;
        for (std::size_t i = 0; i < fused.size(); ++i)
          EXPECT_TRUE(close(fused[i], apart[i], t, 4 * t)) << dtype << " " << with_bias << " " << i;
      }
}

TEST_P(LinearTest, GradientsThroughActivations) {
  for (const Activation activation : {Activation::relu, Activation::silu, Activation::gelu}) {
    const auto f = [&](const std::vector<Tensor>& in) { return linear(in[0], in[1], in[2], activation); };
    const std::vector<Tensor> inputs{random_leaf({6, 5}, device(), 11), random_leaf({4, 5}, device(), 12),
                                     random_leaf({4}, device(), 13)};
    EXPECT_TRUE(gradcheck(f, inputs)) << static_cast<int>(activation);
    EXPECT_TRUE(gradgradcheck(f, inputs)) << static_cast<int>(activation);
  }
}

TEST_P(LinearTest, NanStaysNanThroughRelu) {
  for (const Dtype dtype : {f32, bf16, f16}) {
    Tensor host = random_tensor({64, 32}, {.dtype = f32, .seed = 1});
    host.data<float>()[33] = std::numeric_limits<float>::quiet_NaN();  // in row 1
    const Tensor input = cast(host.to(device()), dtype);
    const Tensor weight = random_tensor({16, 32}, {.dtype = dtype, .device = device(), .seed = 2});
    const Tensor bias = random_tensor({16}, {.dtype = dtype, .device = device(), .seed = 3});
    const auto y = linear(input, weight, bias, Activation::relu).to_vector();
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 16 == 1) << i << " " << dtype;
  }
}

TEST_P(LinearTest, AutocastRoundsOperandsAndKeepsGradientsWide) {
  const auto op = [](const Tensor& x, const Tensor& w, const Tensor& b) { return linear(x, w, b, Activation::relu); };
  check_autocast(op, device(), {40, 24}, {16, 24}, {16});
}

TEST(LinearCpu, DoesNotDependOnTheThreadCount) {
  const int threads = num_threads();
  const auto run = [](int count) {
    set_num_threads(count);
    const Tensor input = random_tensor({4000, 40}, {.dtype = f32, .seed = 1, .requires_grad = true});
    const Tensor weight = random_tensor({30, 40}, {.dtype = f32, .seed = 2, .requires_grad = true});
    const Tensor bias = random_tensor({30}, {.dtype = f32, .seed = 3, .requires_grad = true});
    const Tensor output = linear(input, weight, bias);
    output.backward(random_tensor(output.shape(), {.dtype = f32, .seed = 4}));
    return std::vector<Tensor>{output, input.grad(), weight.grad(), bias.grad()};
  };
  const auto one = run(1);
  const auto three = run(3);
  set_num_threads(threads);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(bit_equal(one[i], three[i])) << i;
}

TEST_P(LinearTest, Errors) {
  const TensorOptions here{.device = device()};
  const Tensor input = Tensor::zeros({2, 3}, here);
  EXPECT_TRUE(throws_error([&] { linear(input, Tensor::zeros({5, 4}, here)); }, {"linear", "[2, 3]", "[5, 4]"}));
  EXPECT_TRUE(throws_error([&] { linear(input, Tensor::zeros({3}, here)); }, {"linear", "weight", "[3]"}));
  EXPECT_TRUE(throws_error([&] { linear(input, Tensor::zeros({5, 3}, here), Tensor::zeros({3}, here)); },
                           {"linear", "bias", "[5]", "[3]"}));
  EXPECT_TRUE(throws_error([&] { linear(input, Tensor::zeros({5, 3}, {.dtype = f64, .device = device()})); },
                           {"linear", "f32", "f64"}));
}

}  // namespace
}  // namespace bevel
