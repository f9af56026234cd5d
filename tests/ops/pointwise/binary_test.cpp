#include <bevel/ops/pointwise/binary.h>

#include <bevel/core/parallel.h>
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/pointwise/create.h>

#include <functional>

#include "testing.h"

namespace bevel::testing {
namespace {

using BinaryTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, BinaryTest, ::testing::ValuesIn(build_devices()), device_name);

struct BinaryCase {
  const char* name;
  Tensor (*function)(const Tensor&, const Tensor&);
  double (*reference)(double, double);
};

const BinaryCase cases[] = {
    {"add", add, [](double a, double b) { return a + b; }},
    {"sub", sub, [](double a, double b) { return a - b; }},
    {"mul", mul, [](double a, double b) { return a * b; }},
    {"div", div, [](double a, double b) { return a / b; }},
    {"maximum", maximum, [](double a, double b) { return std::max(a, b); }},
    {"minimum", minimum, [](double a, double b) { return std::min(a, b); }},
};

const std::pair<Shape, Shape> shapes[] = {
    {{7}, {7}},
    {{2, 3}, {2, 3}},
    {{2, 3}, {3}},
    {{2, 3}, {2, 1}},
    {{2, 3}, {}},
    {{}, {4}},
    {{}, {}},
    {{1, 3}, {2, 1}},
    {{4, 1, 3}, {2, 1}},
    {{2, 3, 4}, {1, 3, 1}},
    {{2, 3, 4}, {3, 4}},
    {{2, 1, 3, 1}, {5, 1, 2}},
    {{2, 3, 4, 4}, {4}},
    {{0, 3}, {3}},
    {{2, 0}, {2, 1}},
};

// Element by element, by coordinates.
std::vector<double> expected(const BinaryCase& c, const Tensor& a, const Tensor& b) {
  const Shape out = broadcast(a.shape(), b.shape(), "test");
  const auto x = a.to_vector();
  const auto y = b.to_vector();
  const auto at = [&](const Shape& shape, std::int64_t i) {
    std::int64_t index = 0;
    std::int64_t stride = 1;
    for (int axis = 1; axis <= out.rank(); ++axis) {
      const std::int64_t coordinate = i % out[-axis];
      i /= out[-axis];
      if (axis > shape.rank()) continue;
      if (shape[-axis] > 1) index += coordinate * stride;
      stride *= shape[-axis];
    }
    return static_cast<std::size_t>(index);
  };
  std::vector<double> result;
  for (std::int64_t i = 0; i < out.numel(); ++i)
    result.push_back(c.reference(x[at(a.shape(), i)], y[at(b.shape(), i)]));
  return result;
}

TEST_P(BinaryTest, BroadcastsLikeCoordinates) {
  for (const BinaryCase& c : cases)
    for (const auto& [sa, sb] : shapes)
      for (const Dtype dtype : {f32, f64}) {
        SCOPED_TRACE(message(c.name, " ", sa, " ", sb, " ", dtype));
        const Tensor a = random_tensor(sa, {.dtype = dtype, .device = device(), .low = 0.5, .high = 2});
        const Tensor b = random_tensor(sb, {.dtype = dtype, .device = device(), .low = 0.5, .high = 2, .seed = 2});
        const Tensor out = c.function(a, b);
        EXPECT_EQ(out.shape(), broadcast(sa, sb, "test"));
        EXPECT_EQ(out.dtype(), dtype);
        EXPECT_TRUE(close(out, expected(c, a, b), dtype == f64 ? 1e-15 : 1e-6, 0));
      }
}

TEST_P(BinaryTest, Gradients) {
  for (const BinaryCase& c : cases)
    for (const auto& [sa, sb] : shapes) {
      if (broadcast(sa, sb, "test").numel() == 0) continue;
      SCOPED_TRACE(message(c.name, " ", sa, " ", sb));
      const std::vector<Tensor> inputs{random_leaf(sa, device(), 1, 0.5, 2), random_leaf(sb, device(), 2, 0.5, 2)};
      const auto function = [&](const std::vector<Tensor>& in) { return c.function(in[0], in[1]); };
      EXPECT_TRUE(gradcheck(function, inputs));
      EXPECT_TRUE(gradgradcheck(function, inputs));
    }
}

// Many blocks and tiles, packs with and without tails, operands off the alignment of packs.
TEST_P(BinaryTest, BroadcastsLargeShapes) {
  const std::pair<Shape, Shape> large[] = {
      {{40, 300}, {300}},
      {{40, 301}, {301}},
      {{40, 1000}, {40, 1}},
      {{5, 7, 1003}, {7, 1}},
      {{70001}, {1}},
      {{70001}, {70001}},
      {{1}, {40003}},
      {{3, 1, 700}, {1, 11, 700}},
      {{9000, 3}, {3}},
      {{9000, 4}, {4}},
      {{200, 1}, {1, 201}},
      {{2, 3, 4, 5, 6, 7}, {4, 1, 6, 1}},
      {{2, 1, 33, 1}, {33, 65}},
      {{6, 16, 16, 8}, {8}},
  };
  for (const auto& [sa, sb] : large)
    for (const Dtype dtype : {f32, f64, bf16, f16})
      for (const std::int64_t offset : {0, 1, 3}) {
        SCOPED_TRACE(message(sa, " ", sb, " ", dtype, " from ", offset));
        const RandomOptions options{.dtype = dtype, .device = device(), .low = 0.5, .high = 2};
        const Tensor a = random_tensor({sa.numel() + offset}, options).view(sa, offset);
        const Tensor b = random_tensor({sb.numel() + offset}, options).view(sb, offset);
        const double tolerance = dtype == f64 ? 1e-15 : dtype == f32 ? 1e-6 : dtype == f16 ? 1e-3 : 1.0 / 256;
        EXPECT_TRUE(close(sub(a, b), expected(cases[1], a, b), tolerance, 1e-3 * tolerance));
        EXPECT_TRUE(close(div(b, a), expected(cases[3], b, a), tolerance, 0));
      }
}

TEST_P(BinaryTest, Integers) {
  for (const Dtype dtype : {i32, i64}) {
    const Tensor a = Tensor::from({2, 2}, {7, -3, 0, 5}, {.dtype = dtype, .device = device()});
    const Tensor b = Tensor::from({2}, {2, -4}, {.dtype = dtype, .device = device()});
    EXPECT_TRUE(close(a + b, {9, -7, 2, 1}));
    EXPECT_TRUE(close(a - b, {5, 1, -2, 9}));
    EXPECT_TRUE(close(a * b, {14, 12, 0, -20}));
    EXPECT_TRUE(close(maximum(a, b), {7, -3, 2, 5}));
    EXPECT_TRUE(close(minimum(a, b), {2, -4, 0, -4}));
    EXPECT_TRUE(close(2 * a + 1, {15, -5, 1, 11}));
    EXPECT_TRUE(close(-a, {-7, 3, 0, -5}));
    EXPECT_TRUE(throws_error([&] { div(a, b); }, {"div", name(dtype)}));
    EXPECT_TRUE(throws_error([&] { a / 2; }, {"div", name(dtype)}));
    EXPECT_TRUE(throws_error([&] { 2 / a; }, {"div", name(dtype)}));
    EXPECT_TRUE(throws_error([&] { a * 0.5; }, {"mul", "whole number", "0.5"}));
  }
  // Beyond 2^53, where double has gaps.
  const std::vector<std::int64_t> values{(std::int64_t{1} << 53) + 1};
  const Tensor big = Tensor::from_values({1}, values).to(device());
  EXPECT_EQ((big + big).to_vector<std::int64_t>()[0], 2 * values[0]);
}

TEST_P(BinaryTest, Numbers) {
  const Tensor x = random_leaf({3, 4}, device(), 5, 0.5, 2);
  const auto check = [&](const std::function<Tensor(const Tensor&)>& f, const std::function<double(double)>& g) {
    std::vector<double> values = x.to_vector();
    for (double& value : values) value = g(value);
    EXPECT_TRUE(close(f(x), values, 1e-15, 0));
    EXPECT_TRUE(gradcheck([&](const std::vector<Tensor>& in) { return f(in[0]); }, {x}));
    EXPECT_TRUE(gradgradcheck([&](const std::vector<Tensor>& in) { return f(in[0]) * in[0]; }, {x}));
  };
  check([](const Tensor& t) { return t + 1.5; }, [](double v) { return v + 1.5; });
  check([](const Tensor& t) { return 1.5 + t; }, [](double v) { return v + 1.5; });
  check([](const Tensor& t) { return t - 1.5; }, [](double v) { return v - 1.5; });
  check([](const Tensor& t) { return 1.5 - t; }, [](double v) { return 1.5 - v; });
  check([](const Tensor& t) { return t * 3; }, [](double v) { return v * 3; });
  check([](const Tensor& t) { return 3 * t; }, [](double v) { return v * 3; });
  check([](const Tensor& t) { return t / 3; }, [](double v) { return v / 3; });
  check([](const Tensor& t) { return 3 / t; }, [](double v) { return 3 / v; });
  check([](const Tensor& t) { return -t; }, [](double v) { return -v; });
  EXPECT_TRUE(std::signbit(neg(Tensor::scalar(0, {.device = device()})).item()));
}

TEST_P(BinaryTest, TiesAndNan) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Dtype dtype : {f32, f64}) {
    const TensorOptions options{.dtype = dtype, .device = device(), .requires_grad = true};
    const Tensor a = Tensor::from({5}, {1, 2, 3, nan, 1}, options);
    const Tensor b = Tensor::from({5}, {2, 2, 1, 1, nan}, options);
    const Tensor upstream = Tensor::from({5}, {10, 20, 30, 40, 50}, {.dtype = dtype, .device = device()});
    const Tensor high = maximum(a, b);
    EXPECT_TRUE(close(high, {2, 2, 3, nan, nan}));
    high.backward(upstream);
    EXPECT_TRUE(close(a.grad(), {0, 10, 30, nan, nan}));
    EXPECT_TRUE(close(b.grad(), {10, 10, 0, nan, nan}));
    a.set_grad({});
    b.set_grad({});
    const Tensor low = minimum(a, b);
    EXPECT_TRUE(close(low, {1, 2, 1, nan, nan}));
    low.backward(upstream);
    EXPECT_TRUE(close(a.grad(), {10, 10, 0, nan, nan}));
    EXPECT_TRUE(close(b.grad(), {0, 10, 30, nan, nan}));
  }
}

TEST_P(BinaryTest, OneTensorTwice) {
  const auto function = [](const std::vector<Tensor>& in) { return in[0] * in[0] / (in[0] + in[0]) + in[0]; };
  EXPECT_TRUE(gradcheck(function, {random_leaf({3}, device(), 1, 0.5, 2)}));
  EXPECT_TRUE(gradgradcheck(function, {random_leaf({3}, device(), 1, 0.5, 2)}));
}

TEST_P(BinaryTest, NoHistoryWithoutNeed) {
  const Tensor x = ones({2}, {.device = device()});
  EXPECT_FALSE((x + x).requires_grad());
  const Tensor leaf = ones({2}, {.device = device(), .requires_grad = true});
  EXPECT_TRUE((x + leaf).requires_grad());
  EXPECT_FALSE(no_grad([&] { return x + leaf; }).requires_grad());
}

TEST_P(BinaryTest, Errors) {
  const Tensor a = ones({2, 3}, {.device = device()});
  for (const BinaryCase& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_TRUE(throws_error([&] { c.function(a, ones({2}, a.options())); }, {c.name, "[2, 3]", "[2]"}));
    EXPECT_TRUE(
        throws_error([&] { c.function(a, ones({3}, {.dtype = f64, .device = device()})); }, {c.name, "f32", "f64"}));
    EXPECT_TRUE(throws_error([&] { c.function(a, Tensor()); }, {"undefined"}));
    if (!device().is_cuda()) continue;
    EXPECT_TRUE(throws_error([&] { c.function(a, ones({3})); }, {c.name, "cpu", "cuda:0"}));
  }
  const Tensor logical = ones({2}, {.dtype = boolean, .device = device()});
  EXPECT_TRUE(throws_error([&] { logical + logical; }, {"bool"}));
}

TEST(Binary, ResultsDoNotDependOnTheThreads) {
  const int before = num_threads();
  const Tensor a = random_tensor({37, 2003}, {.dtype = f32});
  const Tensor b = random_tensor({2003}, {.dtype = f32, .seed = 2});
  set_num_threads(1);
  const Tensor one = div(a, b);
  set_num_threads(3);
  const Tensor three = div(a, b);
  set_num_threads(before);
  EXPECT_TRUE(bit_equal(one, three));
}

}  // namespace
}  // namespace bevel::testing
