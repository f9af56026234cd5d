#include <bevel/core/parallel.h>
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/shape/broadcast_to.h>
#include <bevel/ops/shape/reshape.h>

#include "reference.h"

#include <numeric>

namespace bevel {
namespace {

using namespace testing;

using SumTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, SumTest, ::testing::ValuesIn(build_devices()), device_name);

double total(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST_P(SumTest, ValuesOverAnyAxes) {
  for (const auto& [shape, axes] : reduce_cases())
    for (const Dtype dtype : {f32, f64}) {
      SCOPED_TRACE(message(shape, " ", dtype));
      const Tensor x = random_tensor(shape, {.dtype = dtype, .device = device()});
      const std::vector<double> expected = reference_reduce(x, axes, total);
      const Tensor y = sum(x, axes);
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_TRUE(close(y, expected, dtype == f64 ? 1e-12 : 1e-6, dtype == f64 ? 1e-10 : 1e-4));
      EXPECT_EQ(y.numel(), static_cast<std::int64_t>(expected.size()));
      const Tensor kept = sum(x, axes, {.keepdim = true});
      EXPECT_EQ(kept.rank(), x.rank());
      EXPECT_TRUE(bit_equal(reshape(kept, y.shape()), y));
    }
}

TEST_P(SumTest, MeanDividesByTheCount) {
  for (const auto& [shape, axes] : reduce_cases()) {
    SCOPED_TRACE(message(shape));
    const Tensor x = random_tensor(shape, {.device = device()});
    const auto expected = reference_reduce(
        x, axes, [](const std::vector<double>& v) { return total(v) / static_cast<double>(v.size()); });
    EXPECT_TRUE(close(mean(x, axes), expected, 1e-12, 1e-12));
  }
}

TEST_P(SumTest, NothingGivesZeroAndItsMeanNaN) {
  const Tensor nothing = Tensor::zeros({0, 3}, {.device = device()});
  EXPECT_EQ(sum(nothing).item(), 0);
  EXPECT_EQ(sum(nothing, 0).to_vector(), (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(std::isnan(mean(nothing).item()));
}

TEST_P(SumTest, HalfTypesAreSummedInFloat) {
  for (const Dtype dtype : {bf16, f16}) {
    const Tensor x = random_tensor({3, 5000}, {.dtype = dtype, .device = device(), .low = 0});
    const Tensor y = sum(x, 1);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_TRUE(close(y, reference_reduce(x, {1}, total), dtype == bf16 ? 4e-3 : 5e-4, 0));
    EXPECT_TRUE(close(sum(reshape(x, {3, 50, 100}), {0, 2}), reference_reduce(reshape(x, {3, 50, 100}), {0, 2}, total),
                      dtype == bf16 ? 4e-3 : 5e-4, 0));
  }
}

TEST_P(SumTest, IntegersAndBoolGiveI64) {
  const Tensor i = Tensor::from({2, 3}, {2000000000, 2000000000, 1, -5, 6, 7}, {.dtype = i32, .device = device()});
  EXPECT_EQ(sum(i, 1).dtype(), i64);
  EXPECT_EQ(sum(i, 1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{4000000001, 8}));
  const Tensor b = Tensor::from({4}, {1, 0, 1, 1}, {.dtype = boolean, .device = device()});
  EXPECT_EQ(sum(b).dtype(), i64);
  EXPECT_EQ(sum(b).item(), 3);
  const Tensor u = Tensor::from({2, 2}, {255, 255, 1, 0}, {.dtype = u8, .device = device()});
  EXPECT_EQ(sum(u, 0).to_vector(), (std::vector<double>{256, 255}));
  EXPECT_TRUE(throws_error([&] { mean(i); }, {"mean", "i32"}));
}

TEST_P(SumTest, ManyElementsStayAccurate) {
  const std::int64_t count = (std::int64_t{1} << 24) + 3;
  const Tensor x = broadcast_to(Tensor::scalar(0.1f, {.device = device()}), {count});
  EXPECT_NEAR(mean(x).item() / static_cast<double>(0.1f), 1, 1e-7);
  const Tensor columns = reshape(x.view({count - 3}), {(count - 3) / 2, 2});
  EXPECT_TRUE(close(mean(columns, 0), std::vector<double>(2, 0.1f), 1e-7, 0));
}

TEST_P(SumTest, MeanOfTwoToThe28EqualElements) {
  if (!device().is_cuda()) GTEST_SKIP() << "1 GiB and seconds on a CPU; done on a GPU";
  const std::int64_t count = std::int64_t{1} << 28;
  const Tensor x = broadcast_to(Tensor::scalar(0.1f, {.device = device()}), {count});
  EXPECT_NEAR(mean(x).item() / static_cast<double>(0.1f), 1, 1e-6);
}

TEST_P(SumTest, NaNAndInfinityStay) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::from({2, 3}, {1, std::nan(""), 2, 1, inf, 2}, {.device = device()});
  EXPECT_TRUE(close(sum(x, 1), std::vector<double>{std::nan(""), inf}));
}

TEST_P(SumTest, SumToUndoesBroadcasting) {
  const Tensor x = random_tensor({4, 3, 5}, {.device = device()});
  for (const Shape& shape : {Shape{4, 3, 5}, Shape{3, 5}, Shape{3, 1}, Shape{1, 3, 1}, Shape{1, 1, 5}, Shape{}}) {
    SCOPED_TRACE(message(shape));
    const Tensor y = sum_to(x, shape);
    EXPECT_EQ(y.shape(), shape);
    EXPECT_NEAR(sum(y).item(), sum(x).item(), 1e-12);
  }
  EXPECT_TRUE(close(sum_to(x, {3, 1}), reference_reduce(x, {0, 2}, total), 1e-12));
  EXPECT_TRUE(throws_error([&] { sum_to(x, {2, 5}); }, {"sum_to", "[2, 5]", "[4, 3, 5]"}));
  EXPECT_TRUE(throws_error([&] { sum_to(x, {1, 4, 3, 5}); }, {"sum_to"}));
}

TEST_P(SumTest, BroadcastToRepeats) {
  const Tensor x = Tensor::from({2, 1}, {1, 2}, {.device = device()});
  EXPECT_EQ(broadcast_to(x, {2, 2, 3}).to_vector(), (std::vector<double>{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(broadcast_to(Tensor::scalar(3, {.dtype = i64, .device = device()}), {0, 4}).numel(), 0);
  EXPECT_EQ(broadcast_to(Tensor::scalar(3, {.dtype = boolean, .device = device()}), {2}).to_vector(),
            (std::vector<double>{1, 1}));
  EXPECT_TRUE(throws_error([&] { broadcast_to(x, {3, 3}); }, {"broadcast_to", "[2, 1]", "[3, 3]"}));
}

TEST_P(SumTest, Gradients) {
  for (const auto& [shape, axes] : std::vector<ReduceCase>{
           {{}, {}}, {{4}, {}}, {{3, 4}, {0}}, {{2, 3, 2}, {0, 2}}, {{2, 3, 2}, {1}}, {{1, 3}, {0}}}) {
    SCOPED_TRACE(message(shape));
    const Tensor x = random_leaf(shape, device());
    for (const bool keepdim : {false, true}) {
      const ReduceOptions options{.keepdim = keepdim};
      const auto sums = [&](const auto& in) { return sum(in[0], axes, options); };
      const auto means = [&](const auto& in) { return mean(in[0], axes, options); };
      EXPECT_TRUE(gradcheck(sums, {x}));
      EXPECT_TRUE(gradcheck(means, {x}));
      EXPECT_TRUE(gradgradcheck(means, {x}));
    }
  }
  const Tensor x = random_leaf({2, 3, 2}, device());
  EXPECT_TRUE(gradcheck([](const auto& in) { return sum_to(in[0], {3, 1}); }, {x}));
  EXPECT_TRUE(gradgradcheck([](const auto& in) { return sum_to(in[0], {3, 1}); }, {x}));
  EXPECT_TRUE(gradcheck([](const auto& in) { return broadcast_to(in[0], {2, 2, 3, 2}); }, {x}));
  EXPECT_TRUE(gradgradcheck([](const auto& in) { return broadcast_to(in[0], {2, 2, 3, 2}); }, {x}));
}

TEST_P(SumTest, WrongAxesAreErrors) {
  const Tensor x = Tensor::zeros({2, 3}, {.device = device()});
  EXPECT_TRUE(throws_error([&] { sum(x, 2); }, {"sum", "axis 2", "[2, 3]"}));
  EXPECT_TRUE(throws_error([&] { sum(x, {0, -2}); }, {"sum", "twice"}));
}

TEST(Sum, DoesNotDependOnTheThreadCount) {
  const int before = num_threads();
  for (const auto& [shape, axes] : reduce_cases()) {
    const Tensor x = random_tensor(shape, {.dtype = f32});
    set_num_threads(1);
    const Tensor one = sum(x, axes);
    for (const int threads : {2, 3}) {
      set_num_threads(threads);
      EXPECT_TRUE(bit_equal(sum(x, axes), one)) << shape;
    }
  }
  set_num_threads(before);
}

TEST(SumCuda, AgreesWithTheCpuAndWithItself) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (const auto& [shape, axes] : reduce_cases())
    for (const Dtype dtype : {f32, f64, bf16, f16, i32, i64, u8}) {
      SCOPED_TRACE(message(shape, " ", dtype));
      const Tensor x = random_tensor(shape, {.dtype = dtype, .low = 0, .high = 3});
      const Tensor y = sum(x.to(cuda()), axes);
      EXPECT_TRUE(close(y, sum(x, axes), is_half(dtype) ? 8e-3 : 1e-6));
      EXPECT_TRUE(bit_equal(y, sum(x.to(cuda()), axes)));
    }
}

}  // namespace
}  // namespace bevel
