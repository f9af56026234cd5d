#include <bevel/ops/pointwise/unary.h>

#include <bevel/ops/gradcheck.h>
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/pointwise/cast.h>
#include <bevel/ops/pointwise/create.h>

#include <functional>

#include "testing.h"

namespace bevel::testing {
namespace {

using UnaryTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, UnaryTest, ::testing::ValuesIn(build_devices()), device_name);

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// One row an operator: the closed form, and a range without kinks for the gradients.
struct UnaryCase {
  const char* name;
  std::function<Tensor(const Tensor&)> function;
  std::function<double(double)> reference;
  double low = -3;
  double high = 3;
};

const std::vector<UnaryCase>& cases() {
  static const std::vector<UnaryCase> all{
      {"exp", exp, [](double x) { return std::exp(x); }},
      {"expm1", expm1, [](double x) { return std::expm1(x); }},
      {"log", log, [](double x) { return std::log(x); }, 0.2, 4},
      {"log1p", log1p, [](double x) { return std::log1p(x); }, -0.8, 4},
      {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.2, 4},
      {"square", square, [](double x) { return x * x; }},
      {"abs", abs, [](double x) { return std::abs(x); }, 0.1, 3},
      {"abs of negative numbers", abs, [](double x) { return std::abs(x); }, -3, -0.1},
      {"reciprocal", reciprocal, [](double x) { return 1 / x; }, 0.3, 3},
      {"pow 2", [](const Tensor& x) { return pow(x, 2); }, [](double x) { return x * x; }},
      {"pow 3", [](const Tensor& x) { return pow(x, 3); }, [](double x) { return x * x * x; }},
      {"pow 1", [](const Tensor& x) { return pow(x, 1); }, [](double x) { return x; }},
      {"pow 0", [](const Tensor& x) { return pow(x, 0); }, [](double) { return 1.0; }},
      {"pow -1.5", [](const Tensor& x) { return pow(x, -1.5); }, [](double x) { return std::pow(x, -1.5); }, 0.3, 3},
      {"clamp inside", [](const Tensor& x) { return clamp(x, -4, 4); }, [](double x) { return x; }},
      {"clamp below", [](const Tensor& x) { return clamp(x, 4, 5); }, [](double) { return 4.0; }},
      {"clamp above", [](const Tensor& x) { return clamp(x, -infinity, -4); }, [](double) { return -4.0; }},
      {"relu", relu, [](double x) { return x; }, 0.1, 3},
      {"relu of negative numbers", relu, [](double) { return 0.0; }, -3, -0.1},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.2); }, [](double x) { return x; }, 0.1, 3},
      {"leaky_relu of negative numbers", [](const Tensor& x) { return leaky_relu(x, 0.2); },
       [](double x) { return 0.2 * x; }, -3, -0.1},
      {"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"silu", silu, [](double x) { return x / (1 + std::exp(-x)); }},
      {"tanh", tanh, [](double x) { return std::tanh(x); }},
      {"gelu", gelu, [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }},
      {"softplus", softplus, [](double x) { return std::log1p(std::exp(x)); }},
      {"sin", sin, [](double x) { return std::sin(x); }},
      {"cos", cos, [](double x) { return std::cos(x); }},
  };
  return all;
}

std::vector<double> map_values(const Tensor& x, const std::function<double(double)>& f) {
  std::vector<double> values = x.to_vector();
  for (double& value : values) value = f(value);
  return values;
}

TEST_P(UnaryTest, Values) {
  for (const UnaryCase& c : cases())
    for (const std::int64_t size : {0, 1, 3, 37, 20011}) {
      SCOPED_TRACE(message(c.name, ", ", size, " elements"));
      const auto check = [&](Dtype dtype, double tolerance) {
        const Tensor x =
            random_tensor({size}, {.dtype = dtype, .device = device(), .low = c.low, .high = c.high, .seed = 3});
        const Tensor y = c.function(x);
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_TRUE(close(y, map_values(x, c.reference), tolerance, tolerance)) << dtype;
      };
      check(f64, 1e-14);
      check(f32, 1e-6);
      check(bf16, 1.0 / 256);
      check(f16, 1.0 / 2048);
    }
}

TEST_P(UnaryTest, GradientsOfBothOrders) {
  for (const UnaryCase& c : cases()) {
    SCOPED_TRACE(c.name);
    const std::vector<Tensor> inputs{random_leaf({3, 5}, device(), 4, c.low, c.high)};
    const auto function = [&](const std::vector<Tensor>& in) { return c.function(in[0]); };
    EXPECT_TRUE(gradcheck(function, inputs));
    EXPECT_TRUE(gradgradcheck(function, inputs));
  }
}

TEST_P(UnaryTest, GradientsOfSinglePrecisionAgreeWithDouble) {
  for (const UnaryCase& c : cases())
    for (const Dtype dtype : {f32, bf16, f16}) {
      SCOPED_TRACE(message(c.name, " ", dtype));
      const auto gradient = [&](Dtype of) {
        const Tensor coarse = random_tensor({101}, {.dtype = dtype, .low = c.low, .high = c.high});
        const Tensor leaf = cast(coarse, of).to(device());
        leaf.set_requires_grad();
        c.function(leaf).backward(ones_like(leaf));
        return leaf.grad().to_vector();
      };
      const double tolerance = dtype == f32 ? 4e-6 : dtype == f16 ? 1.0 / 1024 : 1.0 / 128;
      EXPECT_TRUE(close(gradient(dtype), gradient(f64), tolerance, tolerance));
    }
}

TEST_P(UnaryTest, ViewsOffTheAlignmentOfPacks) {
  for (const Dtype dtype : {f32, f64, bf16, f16})
    for (const std::int64_t offset : {0, 1, 2, 3, 5})
      for (const std::int64_t size : {1, 7, 8, 64, 1000, 70001}) {
        const Tensor whole = random_tensor({size + offset}, {.dtype = dtype, .device = device()});
        const Tensor view = whole.view({size}, offset);
        EXPECT_TRUE(bit_equal(square(view), square(view.clone()))) << dtype << " " << offset << " " << size;
        EXPECT_TRUE(bit_equal(mul(view, view), square(view.clone()))) << dtype << " " << offset << " " << size;
      }
}

struct KinkCase {
  const char* name;
  std::function<Tensor(const Tensor&)> function;
  double x;
  double value;
  double gradient;
};

TEST_P(UnaryTest, KinksAndSaturation) {
  const KinkCase kinks[] = {
      {"relu", relu, 0, 0, 0},
      {"relu", relu, -infinity, 0, 0},
      {"relu", relu, infinity, infinity, 1},
      {"relu", relu, nan, nan, 1},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.25); }, 0, 0, 0.25},
      {"abs", abs, 0, 0, 0},
      {"abs", abs, -infinity, infinity, -1},
      {"abs", abs, nan, nan, nan},
      {"clamp", [](const Tensor& x) { return clamp(x, -1, 2); }, -1, -1, 1},
      {"clamp", [](const Tensor& x) { return clamp(x, -1, 2); }, 2, 2, 1},
      {"clamp", [](const Tensor& x) { return clamp(x, -1, 2); }, 2.5, 2, 0},
      {"clamp", [](const Tensor& x) { return clamp(x, -1, 2); }, -infinity, -1, 0},
      {"clamp", [](const Tensor& x) { return clamp(x, -1, 2); }, nan, nan, 1},
      {"sqrt", sqrt, 0, 0, infinity},
      {"sqrt", sqrt, -1, nan, nan},
      {"log", log, 0, -infinity, infinity},
      {"exp", exp, -infinity, 0, 0},
      {"exp", exp, 1000, infinity, infinity},
      {"square", square, 0, 0, 0},
      {"pow", [](const Tensor& x) { return pow(x, 3); }, 0, 0, 0},
      {"sigmoid", sigmoid, 1000, 1, 0},
      {"sigmoid", sigmoid, -1000, 0, 0},
      {"sigmoid", sigmoid, -infinity, 0, 0},
      {"silu", silu, -1000, 0, 0},
      {"silu", silu, 1000, 1000, 1},
      {"silu", silu, -infinity, nan, nan},
      {"softplus", softplus, 1000, 1000, 1},
      {"softplus", softplus, -1000, 0, 0},
      {"softplus", softplus, 0, std::log(2.0), 0.5},
      {"softplus", softplus, nan, nan, nan},
      {"gelu", gelu, 1e4, 1e4, 1},
      {"gelu", gelu, -1e4, 0, 0},
      {"gelu", gelu, -infinity, nan, nan},
      {"tanh", tanh, 1000, 1, 0},
      {"tanh", tanh, -infinity, -1, 0},
  };
  for (const Dtype dtype : {f32, f64})
    for (const KinkCase& k : kinks) {
      SCOPED_TRACE(message(k.name, " at ", k.x, " ", dtype));
      const Tensor x = Tensor::scalar(k.x, {.dtype = dtype, .device = device(), .requires_grad = true});
      const Tensor y = k.function(x);
      EXPECT_TRUE(close(y, {k.value}, 1e-6, 0));
      y.backward();
      EXPECT_TRUE(close(x.grad(), {k.gradient}, 1e-6, 0));
    }
}

TEST_P(UnaryTest, SecondDerivativesDoNotOverflowInSaturation) {
  for (const auto& function : {sigmoid, silu, softplus, gelu, tanh})
    for (const double at : {-1e4, -1000.0, 1000.0, 1e4}) {
      const Tensor x = Tensor::scalar(at, {.device = device(), .requires_grad = true});
      const Tensor first = grad(function(x), {x}, {.create_graph = true})[0];
      EXPECT_EQ(grad(first, {x})[0].item(), 0) << at;
    }
}

TEST_P(UnaryTest, ThirdDerivativeIsAClearError) {
  const Tensor x = Tensor::scalar(0.5, {.dtype = f64, .device = device(), .requires_grad = true});
  const Tensor first = grad(tanh(x), {x}, {.create_graph = true})[0];
  const Tensor second = grad(first, {x}, {.create_graph = true})[0];
  EXPECT_TRUE(throws_error([&] { grad(second, {x}); }, {"tanh", "order 2"}));
}

TEST_P(UnaryTest, Errors) {
  const Tensor whole = Tensor::zeros({2}, {.dtype = i32, .device = device()});
  EXPECT_TRUE(throws_error([&] { exp(whole); }, {"exp", "i32"}));
  const Tensor x = Tensor::zeros({2}, {.device = device()});
  EXPECT_TRUE(throws_error([&] { clamp(x, 2, 1); }, {"clamp", "low is 2", "high is 1"}));
  EXPECT_TRUE(throws_error([&] { clamp(x, nan, 1); }, {"clamp"}));
}

TEST(UnaryCuda, ResultsDoNotDependOnTheDevice) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (const UnaryCase& c : cases())
    for (const Dtype dtype : {f32, f64}) {
      const Tensor x = random_tensor({1003}, {.dtype = dtype, .low = c.low, .high = c.high});
      const double tolerance = dtype == f64 ? 1e-14 : 1e-6;
      EXPECT_TRUE(close(c.function(x.to(cuda(0))), c.function(x), tolerance, tolerance)) << c.name << " " << dtype;
    }
}

}  // namespace
}  // namespace bevel::testing
