#include <bevel/ops/pointwise/binary.h>

#include <bevel/ops/gradcheck.h>

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

}  // namespace
}  // namespace bevel::testing
