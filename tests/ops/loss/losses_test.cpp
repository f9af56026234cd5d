// Every loss of the library against its closed form, and what all of them promise alike. A new loss is a new row.
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/loss/bce_with_logits.h>
#include <bevel/ops/loss/charbonnier.h>
#include <bevel/ops/loss/huber.h>
#include <bevel/ops/loss/l1.h>
#include <bevel/ops/loss/log_cosh.h>
#include <bevel/ops/loss/mse.h>
#include <bevel/ops/loss/poisson_nll.h>
#include <bevel/ops/loss/quantile_loss.h>
#include <bevel/ops/loss/smooth_l1.h>

#include "testing.h"

#include <functional>

namespace bevel::testing {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double log_2 = 0.69314718055994530942;

// What a loss does in f32 at one point; NaN is expected where it is written.
struct Point {
  double input;
  double target;
  double loss;
  double d_input;
};

struct LossCase {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&, const LossOptions&)> loss;
  std::function<double(double, double)> value;  // closed forms in double
  std::function<double(double, double)> d_input;
  std::function<double(double, double)> d_target;
  bool of_probability;  // targets in (0, 1)
  std::vector<Point> points;
};

double sign(double d) {
  return d > 0 ? 1 : d < 0 ? -1 : d == 0 ? 0 : nan;
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// A loss of the error d.
LossCase error_case(const char* name, std::function<Tensor(const Tensor&, const Tensor&, const LossOptions&)> loss,
                    std::function<double(double)> value, std::function<double(double)> derivative,
                    std::vector<Point> points) {
  return {name,
          std::move(loss),
          [value](double x, double t) { return value(x - t); },
          [derivative](double x, double t) { return derivative(x - t); },
          [derivative](double x, double t) { return -derivative(x - t); },
          false,
          std::move(points)};
}

// Calls a loss whose options have more fields than LossOptions.
template <class Options>
Options with(Options options, const LossOptions& common) {
  options.reduction = common.reduction;
  options.weight = common.weight;
  options.scale = common.scale;
  options.normalizer = common.normalizer;
  options.fused = common.fused;
  return options;
}

std::vector<LossCase> cases() {
  using O = LossOptions;
  return {
      error_case(
          "smooth_l1",
          [](const Tensor& a, const Tensor& b, const O& o) {
            return smooth_l1(a, b, with(SmoothL1Options{.beta = 0.6}, o));
          },
          [](double d) { return std::abs(d) < 0.6 ? d * d / 1.2 : std::abs(d) - 0.3; },
          [](double d) { return std::abs(d) < 0.6 ? d / 0.6 : sign(d); },
          {{inf, 0, inf, 1},
           {-inf, 0, inf, -1},
           {1e20, 0, 1e20, 1},
           {1e-20, 0, 8.33333e-41, 1.66667e-20},
           {0, 0, 0, 0}}),
      error_case(
          "huber",
          [](const Tensor& a, const Tensor& b, const O& o) { return huber(a, b, with(HuberOptions{.delta = 0.6}, o)); },
          [](double d) { return std::abs(d) < 0.6 ? d * d / 2 : 0.6 * (std::abs(d) - 0.3); },
          [](double d) { return std::abs(d) < 0.6 ? d : 0.6 * sign(d); },
          {{inf, 0, inf, 0.6}, {-inf, 0, inf, -0.6}, {-1e20, 0, 6e19, -0.6}, {1e-10, 0, 5e-21, 1e-10}, {0, 0, 0, 0}}),
      error_case(
          "l1", [](const Tensor& a, const Tensor& b, const O& o) { return l1(a, b, o); },
          [](double d) { return std::abs(d); }, sign,
          {{inf, 0, inf, 1}, {-inf, 0, inf, -1}, {1e20, 0, 1e20, 1}, {-1e-20, 0, 1e-20, -1}, {0, 0, 0, 0}}),
      error_case(
          "mse", [](const Tensor& a, const Tensor& b, const O& o) { return mse(a, b, o); },
          [](double d) { return d * d; }, [](double d) { return 2 * d; },
          {{inf, 0, inf, inf}, {-inf, 0, inf, -inf}, {1e20, 0, inf, 2e20}, {-1e-10, 0, 1e-20, -2e-10}, {0, 0, 0, 0}}),
      error_case(
          "log_cosh", [](const Tensor& a, const Tensor& b, const O& o) { return log_cosh(a, b, o); },
          [](double d) { return std::abs(d) + std::log1p(std::expm1(-2 * std::abs(d)) / 2); },
          [](double d) { return std::tanh(d); },
          {{inf, 0, inf, 1},
           {-inf, 0, inf, -1},
           {1e20, 0, 1e20, 1},
           {-1e4, 0, 1e4 - log_2, -1},
           {1e-4, 0, 5e-9, 1e-4},
           {1e-18, 0, 5e-37, 1e-18},
           {-0.5, 0, 0.12011450695827752, -0.46211715726000976},
           {0, 0, 0, 0}}),
      error_case(
          "charbonnier",
          [](const Tensor& a, const Tensor& b, const O& o) {
            return charbonnier(a, b, with(CharbonnierOptions{.eps = 0.3}, o));
          },
          [](double d) { return std::hypot(d, 0.3); }, [](double d) { return d / std::hypot(d, 0.3); },
          {{inf, 0, inf, 1}, {-inf, 0, inf, -1}, {1e20, 0, 1e20, 1}, {1e-20, 0, 0.3, 1e-20 / 0.3}, {0, 0, 0.3, 0}}),
      error_case(
          "quantile_loss",
          [](const Tensor& a, const Tensor& b, const O& o) {
            return quantile_loss(a, b, with(QuantileOptions{.tau = 0.9}, o));
          },
          [](double d) { return d > 0 ? 0.1 * d : -0.9 * d; }, [](double d) { return d > 0 ? 0.1 : 0.9 * sign(d); },
          {{inf, 0, inf, 0.1}, {-inf, 0, inf, -0.9}, {1e20, 0, 1e19, 0.1}, {-1e-20, 0, 9e-21, -0.9}, {0, 0, 0, 0}}),
      {"bce_with_logits",
       [](const Tensor& a, const Tensor& b, const O& o) { return bce_with_logits(a, b, o); },
       [](double x, double t) { return -t * std::log(sigmoid(x)) - (1 - t) * std::log(sigmoid(-x)); },
       [](double x, double t) { return sigmoid(x) - t; },
       [](double x, double) { return -x; },
       true,
       {{inf, 1, 0, 0},
        {inf, 0.5, inf, 0.5},
        {-inf, 0, 0, 0},
        {-inf, 1, inf, -1},
        {1e20, 0.25, 7.5e19, 0.75},
        {-1e20, 0, 0, 0},
        {1e-20, 0.5, log_2, 0},
        {20, 1, 2.0611536e-9, -2.0611536e-9},
        {-20, 0, 2.0611536e-9, 2.0611536e-9},
        {0, 0.25, log_2, 0.25}}},
      {"poisson_nll",
       [](const Tensor& a, const Tensor& b, const O& o) { return poisson_nll(a, b, o); },
       [](double x, double t) { return std::exp(x) - t * x; },
       [](double x, double t) { return std::exp(x) - t; },
       [](double x, double) { return -x; },
       true,
       {{inf, 3, inf, inf},
        {-inf, 0, 0, 0},
        {-inf, 2, inf, -2},
        {1e20, 1, inf, inf},
        {-1e20, 2, 2e20, -2},
        {1e-20, 1, 1, 0}}},
  };
}

class LossesTest : public DeviceTest {
 protected:
  static Tensor input(const Shape& shape, Dtype dtype, bool requires_grad = true) {
    return random_tensor(
        shape, {.dtype = dtype, .device = device(), .low = -2, .high = 2, .seed = 21, .requires_grad = requires_grad});
  }
  static Tensor target(const LossCase& loss, const Shape& shape, Dtype dtype, bool requires_grad = false) {
    return random_tensor(shape, {.dtype = dtype,
                                 .device = device(),
                                 .low = loss.of_probability ? 0.0 : -2.0,
                                 .high = loss.of_probability ? 1.0 : 2.0,
                                 .seed = 22,
                                 .requires_grad = requires_grad});
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, LossesTest, ::testing::ValuesIn(build_devices()), device_name);

TEST_P(LossesTest, ClosedForms) {
  for (const LossCase& loss : cases())
    for (const Dtype dtype : {f32, f64, bf16, f16})
      for (const bool fused : {true, false}) {
        SCOPED_TRACE(message(loss.name, " ", dtype, " fused ", fused));
        const std::int64_t size = 1237;
        const Tensor x = input({size}, dtype);
        const Tensor t = target(loss, {size}, dtype, true);
        const Tensor upstream = random_tensor({size}, {.dtype = dtype, .device = device(), .seed = 23});
        const std::vector<double> xs = x.to_vector();
        const std::vector<double> ts = t.to_vector();
        const std::vector<double> us = upstream.to_vector();
        std::vector<double> value, d_input, d_target, d_input_mean, d_target_mean;
        double total = 0;
        for (std::size_t i = 0; i < xs.size(); ++i) {
          value.push_back(loss.value(xs[i], ts[i]));
          total += value.back();
          d_input.push_back(us[i] * loss.d_input(xs[i], ts[i]));
          d_target.push_back(us[i] * loss.d_target(xs[i], ts[i]));
          d_input_mean.push_back(loss.d_input(xs[i], ts[i]) * 512 / static_cast<double>(size));
          d_target_mean.push_back(loss.d_target(xs[i], ts[i]) * 512 / static_cast<double>(size));
        }
        const double tol = dtype == f64 ? 1e-13 : dtype == f32 ? 2e-6 : dtype == f16 ? 2e-3 : 1e-2;
        const Tensor none = loss.loss(x, t, {.reduction = Reduction::none, .fused = fused});
        EXPECT_TRUE(close(none, value, tol, tol));
        none.backward(upstream);
        EXPECT_TRUE(close(x.grad(), d_input, tol, tol));
        EXPECT_TRUE(close(t.grad(), d_target, tol, tol));
        x.set_grad({});
        t.set_grad({});
        const Tensor mean = loss.loss(x, t, {.scale = 512, .fused = fused});
        EXPECT_TRUE(close(mean, {total * 512 / static_cast<double>(size)}, 1e-6));
        mean.backward();
        EXPECT_TRUE(close(x.grad(), d_input_mean, tol, tol));
        EXPECT_TRUE(close(t.grad(), d_target_mean, tol, tol));
      }
}

TEST_P(LossesTest, GradcheckOfFirstAndSecondOrder) {
  for (const LossCase& loss : cases())
    for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum})
      for (const bool fused : {true, false}) {
        SCOPED_TRACE(message(loss.name, " ", name(reduction), " fused ", fused));
        const LossOptions options{.reduction = reduction, .scale = 1.5, .fused = fused};
        const auto f = [&](const std::vector<Tensor>& in) { return loss.loss(in[0], in[1], options); };
        const Tensor x = input({3, 5}, f64);
        const Tensor t = target(loss, {3, 5}, f64, true);
        EXPECT_TRUE(gradcheck(f, {x, t}));
        EXPECT_TRUE(gradgradcheck(f, {x, t}));
        EXPECT_TRUE(gradgradcheck(f, {x, t.detach()}));
        EXPECT_TRUE(gradgradcheck(f, {x.detach(), t}));
      }
}

TEST_P(LossesTest, SpecialPoints) {
  for (const LossCase& loss : cases())
    for (const Point& point : loss.points)
      for (const bool fused : {true, false}) {
        SCOPED_TRACE(message(loss.name, " at ", point.input, ", ", point.target, " fused ", fused));
        const Tensor x = Tensor::from({1}, {point.input}, {.device = device(), .requires_grad = true});
        const Tensor t = Tensor::from({1}, {point.target}, {.device = device()});
        const Tensor value = loss.loss(x, t, {.reduction = Reduction::sum, .fused = fused});
        EXPECT_TRUE(close(value, {point.loss}, 3e-6, 1e-43));
        value.backward();
        EXPECT_TRUE(close(x.grad(), {point.d_input}, 3e-6, 0));
      }
}

TEST_P(LossesTest, NanGivesNanAndWeightZeroSelectsItOut) {
  for (const LossCase& loss : cases())
    for (const Dtype dtype : {f32, f64, bf16, f16})
      for (const bool fused : {true, false}) {
        SCOPED_TRACE(message(loss.name, " ", dtype, " fused ", fused));
        const Tensor x = Tensor::from({2}, {nan, 0.5}, {.dtype = dtype, .device = device(), .requires_grad = true});
        const Tensor t = Tensor::from({2}, {0.5, nan}, {.dtype = dtype, .device = device()});
        loss.loss(x, t, {.reduction = Reduction::sum, .fused = fused}).backward();
        EXPECT_TRUE(close(x.grad(), {nan, nan}, 0, 0));
        EXPECT_TRUE(close(loss.loss(x, t, {.reduction = Reduction::none}), {nan, nan}, 0, 0));
        x.set_grad({});
        const Tensor weight = Tensor::zeros({2}, {.dtype = dtype, .device = device()});
        const Tensor none = loss.loss(x, t, {.reduction = Reduction::sum, .weight = weight, .fused = fused});
        EXPECT_EQ(none.item(), 0);
        none.backward();
        EXPECT_TRUE(close(x.grad(), {0, 0}, 0, 0));
      }
}

TEST_P(LossesTest, FusedEqualsUnfusedToTheBit) {
  for (const LossCase& loss : cases())
    for (const Dtype dtype : {f32, f64, bf16, f16}) {
      SCOPED_TRACE(message(loss.name, " ", dtype));
      Tensor value[2], d_input[2], d_target[2];
      for (const bool fused : {false, true}) {
        const Tensor x = input({100003}, dtype);
        const Tensor t = target(loss, {100003}, dtype, true);
        value[fused] = loss.loss(x, t, {.scale = 1000, .fused = fused});
        value[fused].backward();
        d_input[fused] = x.grad();
        d_target[fused] = t.grad();
      }
      EXPECT_TRUE(bit_equal(value[1], value[0]));
      EXPECT_TRUE(bit_equal(d_input[1], d_input[0]));
      EXPECT_TRUE(bit_equal(d_target[1], d_target[0]));
    }
}

TEST_P(LossesTest, MisalignedSlices) {
  for (const LossCase& loss : cases())
    for (const Dtype dtype : {f32, f64, bf16, f16}) {
      SCOPED_TRACE(message(loss.name, " ", dtype));
      const Tensor x = input({1040}, dtype, false).view({1031}, 3).set_requires_grad();
      const Tensor t = target(loss, {1040}, dtype).view({1031}, 1);
      const Tensor aligned_x = x.detach().clone().set_requires_grad();
      loss.loss(x, t, {}).backward();
      loss.loss(aligned_x, t.clone(), {}).backward();
      EXPECT_TRUE(bit_equal(x.grad(), aligned_x.grad()));
    }
}

TEST_P(LossesTest, EmptyInput) {
  for (const LossCase& loss : cases()) {
    const Tensor x = Tensor::zeros({0}, {.device = device(), .requires_grad = true});
    const Tensor value = loss.loss(x, x.detach(), {});
    EXPECT_EQ(value.item(), 0);
    value.backward();
    EXPECT_EQ(x.grad().numel(), 0);
  }
}

TEST_P(LossesTest, ParametersAreChecked) {
  const Tensor x = Tensor::zeros({2}, {.device = device()});
  for (const double bad : {-1.0, 0.0, inf, nan}) {
    EXPECT_TRUE(throws_error([&] { huber(x, x, {.delta = bad}); }, {"huber", "delta"}));
    EXPECT_TRUE(throws_error([&] { charbonnier(x, x, {.eps = bad}); }, {"charbonnier", "eps"}));
    EXPECT_TRUE(throws_error([&] { quantile_loss(x, x, {.tau = bad}); }, {"quantile_loss", "tau"}));
  }
  EXPECT_TRUE(throws_error([&] { quantile_loss(x, x, {.tau = 1}); }, {"quantile_loss", "tau"}));
  // An eps that is 0 in f32 must not divide 0 by 0.
  const Tensor leaf = x.detach().clone().set_requires_grad();
  charbonnier(leaf, x, {.eps = 1e-200}).backward();
  EXPECT_TRUE(close(leaf.grad(), {0, 0}, 0, 0));
}

TEST_P(LossesTest, SecondDerivativesAtZero) {
  const auto second = [&](const LossCase& loss, double at, double t) {
    const Tensor x = Tensor::from({1}, {at}, {.dtype = f64, .device = device(), .requires_grad = true});
    const Tensor target = Tensor::from({1}, {t}, {.dtype = f64, .device = device()});
    const Tensor first = grad(loss.loss(x, target, {}), {x}, {.create_graph = true})[0];
    return grad(first, {x})[0].item();
  };
  const std::vector<LossCase> all = cases();
  const auto of = [&](std::string_view name) {
    for (const LossCase& loss : all)
      if (name == loss.name) return loss;
    throw Error("no such loss");
  };
  EXPECT_DOUBLE_EQ(second(of("huber"), 0, 0), 1);
  EXPECT_DOUBLE_EQ(second(of("huber"), 1, 0), 0);
  EXPECT_DOUBLE_EQ(second(of("l1"), 0, 0), 0);
  EXPECT_DOUBLE_EQ(second(of("mse"), 0, 0), 2);
  EXPECT_DOUBLE_EQ(second(of("log_cosh"), 0, 0), 1);
  EXPECT_DOUBLE_EQ(second(of("charbonnier"), 0, 0), 1 / 0.3);
  EXPECT_DOUBLE_EQ(second(of("quantile_loss"), 0, 0), 0);
  EXPECT_DOUBLE_EQ(second(of("bce_with_logits"), 0, 0.3), 0.25);
  EXPECT_DOUBLE_EQ(second(of("poisson_nll"), 0, 3), 1);
}

class LossesCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(LossesCudaTest, AgreeWithTheCpu) {
  for (const LossCase& loss : cases())
    for (const Dtype dtype : {f32, f64, bf16, f16})
      for (const bool fused : {true, false}) {
        SCOPED_TRACE(message(loss.name, " ", dtype, " fused ", fused));
        const double low = loss.of_probability ? 0 : -2;
        const Tensor x =
            random_tensor({100003}, {.dtype = dtype, .low = -2, .high = 2, .seed = 31, .requires_grad = true});
        const Tensor t = random_tensor({100003}, {.dtype = dtype, .low = low, .high = low + 1, .seed = 32});
        const Tensor gpu_x = x.detach().to(cuda()).set_requires_grad();
        const Tensor value = loss.loss(x, t, {.scale = 1000, .fused = fused});
        const Tensor gpu_value = loss.loss(gpu_x, t.to(cuda()), {.scale = 1000, .fused = fused});
        const double tol = dtype == f64 ? 1e-12 : dtype == f32 ? 2e-6 : 1e-2;
        EXPECT_TRUE(close(gpu_value, value, 1e-6));
        value.backward();
        gpu_value.backward();
        EXPECT_TRUE(close(gpu_x.grad(), x.grad(), tol, tol * 0.01));
      }
}

}  // namespace
}  // namespace bevel::testing
