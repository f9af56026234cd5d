#include <bevel/core/parallel.h>
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/reduction/extreme.h>
#include <bevel/ops/shape/reshape.h>

#include "reference.h"

#include <algorithm>

namespace bevel {
namespace {

using namespace testing;

using ExtremeTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, ExtremeTest, ::testing::ValuesIn(build_devices()), device_name);

const double nan = std::nan("");
const double inf = std::numeric_limits<double>::infinity();

double greatest(const std::vector<double>& v) {
  return *std::max_element(v.begin(), v.end());
}
double least(const std::vector<double>& v) {
  return *std::min_element(v.begin(), v.end());
}

Tensor converted(const Tensor& x, Dtype dtype) {
  const std::vector<float> values = x.to_vector<float>();
  Tensor result = Tensor::empty(x.shape(), {.dtype = dtype});
  visit(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i) result.data<T>()[i] = static_cast<T>(values[i]);
  });
  return result;
}

TEST_P(ExtremeTest, ValuesOverAnyAxes) {
  for (const auto& [shape, axes] : reduce_cases()) {
    if (shape.numel() == 0) continue;
    for (const Dtype dtype : {f32, f64, bf16, f16, i32, i64, u8}) {
      SCOPED_TRACE(message(shape, " ", dtype));
      const double low = dtype == u8 ? 0 : -50;
      const Tensor x = random_tensor(shape, {.dtype = dtype, .device = device(), .low = low, .high = 60});
      EXPECT_EQ(max(x, axes).to_vector(), reference_reduce(x, axes, greatest));
      EXPECT_EQ(min(x, axes).to_vector(), reference_reduce(x, axes, least));
      EXPECT_EQ(max(x, axes).dtype(), dtype);
      EXPECT_EQ(max(x, axes, {.keepdim = true}).rank(), x.rank());
    }
  }
}

TEST_P(ExtremeTest, PlacesAlongAnAxis) {
  for (const Shape& shape : {Shape{7}, Shape{5, 3}, Shape{3, 1, 5}, Shape{4, 5, 6}, Shape{3, 40000}, Shape{40000, 3}})
    for (int axis = 0; axis < shape.rank(); ++axis)
      for (const Dtype dtype : {f32, f64, bf16, f16, i32, i64}) {
        SCOPED_TRACE(message(shape, " axis ", axis, " ", dtype));
        // Few distinct values, so that there are ties: the first place counts.
        const Tensor x = random_tensor(shape, {.dtype = i32, .low = -4, .high = 4});
        const Tensor typed = converted(x, dtype).to(device());
        const auto first = [](auto best) {
          return [best](const std::vector<double>& v) {
            return static_cast<double>(best(v.begin(), v.end()) - v.begin());
          };
        };
        const auto max_place = first([](auto a, auto b) { return std::max_element(a, b); });
        const auto min_place = first([](auto a, auto b) { return std::min_element(a, b); });
        EXPECT_EQ(argmax(typed, axis).to_vector(), reference_reduce(x, {axis}, max_place));
        EXPECT_EQ(argmin(typed, axis - shape.rank()).to_vector(), reference_reduce(x, {axis}, min_place));
        EXPECT_EQ(argmax(typed, axis).dtype(), i64);
        EXPECT_EQ(argmax(typed).to_vector(), reference_reduce(x, {}, max_place));
        EXPECT_EQ(argmin(typed, axis, {.keepdim = true}).shape(), shape.replaced(axis, 1));
      }
}

TEST_P(ExtremeTest, NaNWins) {
  const Tensor x = Tensor::from({3, 3}, {1, nan, 3, nan, inf, nan, -inf, -inf, -inf}, {.device = device()});
  EXPECT_TRUE(close(max(x, 1), std::vector<double>{nan, nan, -inf}));
  EXPECT_TRUE(close(min(x, 1), std::vector<double>{nan, nan, -inf}));
  EXPECT_EQ(argmax(x, 1).to_vector(), (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(argmin(x, 1).to_vector(), (std::vector<double>{1, 0, 0}));
  EXPECT_TRUE(close(max(x, 0), std::vector<double>{nan, nan, nan}));
  // Far down a long row and a long column.
  std::vector<float> values(100000, 1);
  values[77777] = static_cast<float>(nan);
  const Tensor row = Tensor::from_values(Shape{1, 100000}, values, {.device = device()});
  EXPECT_TRUE(std::isnan(max(row).item()));
  EXPECT_EQ(argmin(row).item(), 77777);
  EXPECT_TRUE(close(max(reshape(row, {50000, 2}), 0), std::vector<double>{1, nan}));
}

TEST_P(ExtremeTest, NothingIsAnError) {
  const Tensor x = Tensor::zeros({2, 0}, {.device = device()});
  EXPECT_TRUE(throws_error([&] { max(x); }, {"max", "[2, 0]"}));
  EXPECT_TRUE(throws_error([&] { min(x, 1); }, {"min", "[2, 0]"}));
  EXPECT_TRUE(throws_error([&] { argmax(x, 1); }, {"argmax", "[2, 0]"}));
  EXPECT_EQ(max(x, 0).shape(), Shape{0});
  EXPECT_EQ(argmin(x, 0).shape(), Shape{0});
  EXPECT_TRUE(throws_error([&] { max(Tensor::zeros({2}, {.dtype = boolean, .device = device()})); }, {"max", "bool"}));
  EXPECT_TRUE(throws_error([&] { argmin(Tensor::zeros({2}, {.dtype = u8, .device = device()})); }, {"argmin", "u8"}));
}

TEST_P(ExtremeTest, TiesShareTheGradient) {
  const Tensor x =
      Tensor::from({2, 4}, {1, 3, 3, 0, 2, 2, 2, 2}, {.dtype = f64, .device = device(), .requires_grad = true});
  max(x, 1).backward(Tensor::from({2}, {6, 8}, {.dtype = f64, .device = device()}));
  EXPECT_EQ(x.grad().to_vector(), (std::vector<double>{0, 3, 3, 0, 2, 2, 2, 2}));
  x.set_grad({});
  min(reshape(x, {2, 2, 2}), {0, 2}).backward(Tensor::from({2}, {1, 1}, {.dtype = f64, .device = device()}));
  EXPECT_EQ(x.grad().to_vector(), (std::vector<double>{1, 0, 0, 1, 0, 0, 0, 0}));
}

TEST_P(ExtremeTest, Gradients) {
  for (const auto& [shape, axes] : std::vector<ReduceCase>{
           {{}, {}}, {{4}, {}}, {{3, 4}, {0}}, {{2, 3, 2}, {0, 2}}, {{2, 3, 2}, {1}}, {{1, 3}, {0}}}) {
    SCOPED_TRACE(message(shape));
    const Tensor x = random_leaf(shape, device());
    for (const bool keepdim : {false, true}) {
      const ReduceOptions options{.keepdim = keepdim};
      EXPECT_TRUE(gradcheck([&](const auto& in) { return max(in[0], axes, options); }, {x}));
      EXPECT_TRUE(gradcheck([&](const auto& in) { return min(in[0], axes, options); }, {x}));
      EXPECT_TRUE(gradgradcheck([&](const auto& in) { return max(in[0], axes, options); }, {x}));
    }
  }
}

TEST(Extreme, DoesNotDependOnTheThreadCount) {
  const int before = num_threads();
  const Tensor x = random_tensor({3, 40000}, {.dtype = f32});
  set_num_threads(1);
  const Tensor value = max(x, 1);
  const Tensor place = argmax(x, 1);
  for (const int threads : {2, 3}) {
    set_num_threads(threads);
    EXPECT_TRUE(bit_equal(max(x, 1), value));
    EXPECT_TRUE(bit_equal(argmax(x, 1), place));
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace bevel
