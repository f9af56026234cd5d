#include <bevel/core/parallel.h>
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/shape/concat.h>
#include <bevel/ops/shape/permute.h>
#include <bevel/ops/shape/reshape.h>
#include <bevel/ops/shape/slice.h>

#include <testing.h>

#include <algorithm>

namespace bevel {
namespace {

using namespace testing;

using ShapeOpsTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, ShapeOpsTest, ::testing::ValuesIn(build_devices()), device_name);

// 0, 1, 2, ...
Tensor counted(const Shape& shape, Device device, Dtype dtype = f32) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 200);
  return visit(dtype, [&]<class T>() {
    Tensor x = Tensor::empty(shape, {.dtype = dtype});
    for (std::size_t i = 0; i < values.size(); ++i) x.data<T>()[i] = static_cast<T>(static_cast<float>(values[i]));
    return x.to(device);
  });
}

// Element numbers of a permuted tensor, by plain index arithmetic.
std::vector<double> permuted(const Tensor& x, const std::vector<int>& order) {
  const std::vector<double> values = x.to_vector();
  const int rank = x.rank();
  std::vector<std::int64_t> strides(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i) strides[static_cast<std::size_t>(i)] = x.shape().product(i + 1, rank);
  std::vector<double> result;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::int64_t rest = i;
    std::int64_t offset = 0;
    for (int k = rank - 1; k >= 0; --k) {
      const int axis = order[static_cast<std::size_t>(k)];
      offset += rest % x.shape()[axis] * strides[static_cast<std::size_t>(axis)];
      rest /= x.shape()[axis];
    }
    result.push_back(values[static_cast<std::size_t>(offset)]);
  }
  return result;
}

TEST_P(ShapeOpsTest, ReshapeIsAView) {
  const Tensor x = counted({2, 6}, device());
  const Tensor y = reshape(x, {3, -1});
  EXPECT_EQ(y.shape(), (Shape{3, 4}));
  EXPECT_EQ(y.raw(), x.raw());
  EXPECT_EQ(reshape(x, {-1}).shape(), Shape{12});
  EXPECT_EQ(reshape(Tensor::zeros({0, 3}), {3, -1}).shape(), (Shape{3, 0}));
  EXPECT_EQ(flatten(reshape(x, {1, 2, 3, 2}), 1, 2).shape(), (Shape{1, 6, 2}));
  EXPECT_EQ(flatten(Tensor::scalar(1)).shape(), Shape{1});
  EXPECT_EQ(squeeze(reshape(x, {1, 12, 1})).shape(), Shape{12});
  EXPECT_EQ(squeeze(reshape(x, {1, 12, 1}), -1).shape(), (Shape{1, 12}));
  EXPECT_EQ(unsqueeze(x, -1).shape(), (Shape{2, 6, 1}));
  EXPECT_EQ(unsqueeze(x, 1).shape(), (Shape{2, 1, 6}));
  EXPECT_TRUE(throws_error([&] { reshape(x, {5, -1}); }, {"reshape", "[2, 6]"}));
  EXPECT_TRUE(throws_error([&] { reshape(x, {-1, -1}); }, {"reshape", "only one"}));
  EXPECT_TRUE(throws_error([&] { reshape(x, {5, 2}); }, {"reshape", "[5, 2]", "[2, 6]"}));
  EXPECT_TRUE(throws_error([&] { squeeze(x, 0); }, {"squeeze", "[2, 6]"}));
  EXPECT_TRUE(throws_error([&] { unsqueeze(x, 4); }, {"unsqueeze"}));
}

TEST_P(ShapeOpsTest, PermuteMovesEveryElement) {
  const std::vector<std::pair<Shape, std::vector<int>>> cases = {
      {{}, {}},
      {{5}, {0}},
      {{3, 4}, {1, 0}},
      {{33, 70}, {1, 0}},
      {{700, 513}, {1, 0}},
      {{2, 33, 70}, {0, 2, 1}},
      {{33, 2, 70}, {2, 1, 0}},
      {{2, 3, 40, 50}, {0, 2, 3, 1}},
      {{2, 40, 50, 3}, {0, 3, 1, 2}},
      {{1, 3, 1, 4}, {2, 3, 0, 1}},
      {{3, 0, 2}, {2, 0, 1}},
      {{2, 3, 2, 2, 1, 2, 3, 2}, {7, 0, 6, 1, 5, 2, 4, 3}},
  };
  for (const auto& [shape, order] : cases)
    for (const Dtype dtype : {f32, f64, bf16, u8}) {
      SCOPED_TRACE(message(shape, " ", dtype));
      const Tensor x = counted(shape, device(), dtype);
      EXPECT_EQ(permute(x, order).to_vector(), permuted(x, order));
    }
  const Tensor x = counted({2, 3, 4}, device());
  EXPECT_TRUE(bit_equal(transpose(x, 0, -1), permute(x, {2, 1, 0})));
  EXPECT_EQ(permute(reshape(x, {2, 1, 12}), {1, 0, 2}).raw(), x.raw()) << "nothing moves";
  EXPECT_TRUE(throws_error([&] { permute(x, {0, 1}); }, {"permute", "[2, 3, 4]"}));
  EXPECT_TRUE(throws_error([&] { permute(x, {0, 1, 1}); }, {"permute", "twice"}));
}

TEST_P(ShapeOpsTest, FlipReverses) {
  const Tensor x = counted({2, 3}, device());
  EXPECT_EQ(flip(x, 1).to_vector(), (std::vector<double>{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(flip(x, 0).to_vector(), (std::vector<double>{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(flip(Tensor::zeros({0, 2}, {.device = device()}), 0).numel(), 0);
}

TEST_P(ShapeOpsTest, SliceTakesAPart) {
  const Tensor x = counted({4, 6}, device());
  EXPECT_EQ(slice(x, 0, 1, 3).raw(), static_cast<char*>(x.raw()) + 6 * sizeof(float)) << "a view";
  EXPECT_EQ(slice(x, 0, 1, 2).to_vector(), (std::vector<double>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(slice(x, 1, -2).to_vector(), (std::vector<double>{4, 5, 10, 11, 16, 17, 22, 23}));
  EXPECT_EQ(slice(x, 1, 1, 6, 2).to_vector(), (std::vector<double>{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23}));
  EXPECT_EQ(slice(x, 0, 0, 4, 3).to_vector(), (std::vector<double>{0, 1, 2, 3, 4, 5, 18, 19, 20, 21, 22, 23}));
  EXPECT_EQ(slice(x, 1, 3, 3).shape(), (Shape{4, 0}));
  EXPECT_EQ(slice(x, 0, 4).shape(), (Shape{0, 6}));
  EXPECT_EQ(select(x, 1, -1).to_vector(), (std::vector<double>{5, 11, 17, 23}));
  EXPECT_TRUE(throws_error([&] { slice(x, 1, 2, 7); }, {"slice", "[4, 6]"}));
  EXPECT_TRUE(throws_error([&] { slice(x, 1, 3, 2); }, {"slice"}));
  EXPECT_TRUE(throws_error([&] { slice(x, 1, 0, 2, 0); }, {"slice", "step"}));
  EXPECT_TRUE(throws_error([&] { select(x, 1, 6); }, {"select", "6"}));
}

TEST_P(ShapeOpsTest, ConcatAndSplitAreInverse) {
  for (const int axis : {0, 1, 2}) {
    const Tensor x = counted({5, 6, 7}, device());
    const auto parts = split(x, 2, axis);
    EXPECT_TRUE(bit_equal(concat(parts, axis), x));
    EXPECT_EQ(chunk(x, 3, axis).size(), 3u);
    EXPECT_TRUE(bit_equal(concat(chunk(x, 4, axis), axis), x));
  }
  const Tensor a = counted({2, 1}, device());
  EXPECT_EQ(concat({a, Tensor::zeros({2, 0}, {.device = device()}), a}, 1).to_vector(),
            (std::vector<double>{0, 0, 1, 1}));
  EXPECT_EQ(stack({a, a}, -1).shape(), (Shape{2, 1, 2}));
  EXPECT_EQ(stack({a, a}, 0).to_vector(), (std::vector<double>{0, 1, 0, 1}));
  EXPECT_TRUE(throws_error([&] { concat({a, counted({3, 2}, device())}, 1); }, {"concat", "[2, 1]", "[3, 2]"}));
  EXPECT_TRUE(throws_error([&] { concat({a, counted({2, 1}, device(), f64)}); }, {"concat", "f64"}));
  EXPECT_TRUE(throws_error([&] { concat(std::vector<Tensor>{}); }, {"concat"}));
  EXPECT_TRUE(throws_error([&] { stack({a, counted({2, 2}, device())}); }, {"stack"}));
  EXPECT_TRUE(throws_error([&] { split(a, std::vector<std::int64_t>{1, 2}, 0); }, {"split", "3", "2"}));
}

TEST_P(ShapeOpsTest, Gradients) {
  const Tensor x = random_leaf({3, 4, 2}, device());
  const Tensor y = random_leaf({3, 1, 2}, device(), 2);
  const std::vector<GradcheckFunction> functions = {
      [](const auto& in) { return reshape(in[0], {4, 6}); },
      [](const auto& in) { return permute(in[0], {2, 0, 1}); },
      [](const auto& in) { return transpose(in[0], 0, 1); },
      [](const auto& in) { return flip(in[0], 1); },
      [](const auto& in) { return slice(in[0], 0, 1, 3); },
      [](const auto& in) { return slice(in[0], 1, 0, 4, 3); },
      [](const auto& in) { return select(in[0], 2, 1); },
      [](const auto& in) { return concat({in[0], in[1], in[0]}, 1); },
      [](const auto& in) { return stack({in[0], in[0]}, 1); },
      [](const auto& in) {
        const auto parts = split(in[0], 3, 1);
        return parts[0].size(1) > 1 ? concat({parts[1], parts[0]}, 1) : parts[0];
      },
      [](const auto& in) { return split(in[0], 1, 0)[1]; },
  };
  for (std::size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(gradcheck(functions[i], {x, y}));
    EXPECT_TRUE(gradgradcheck(functions[i], {x, y}));
  }
}

TEST_P(ShapeOpsTest, GradientOfASliceFillsTheRestWithZeros) {
  const Tensor x = random_leaf({3, 2}, device());
  slice(x, 0, 1, 2).backward(Tensor::from({1, 2}, {5, 7}, {.dtype = f64, .device = device()}));
  EXPECT_EQ(x.grad().to_vector(), (std::vector<double>{0, 0, 5, 7, 0, 0}));
}

}  // namespace
}  // namespace bevel
