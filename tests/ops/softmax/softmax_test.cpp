#include <bevel/core/parallel.h>
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/shape/slice.h>
#include <bevel/ops/softmax/softmax.h>

#include <testing.h>

namespace bevel {
namespace {

using namespace testing;

using SoftmaxTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, SoftmaxTest, ::testing::ValuesIn(build_devices()), device_name);

const double nan = std::nan("");
const double inf = std::numeric_limits<double>::infinity();

struct Case {
  Shape shape;
  int axis;
};
const std::vector<Case> cases = {{{1}, 0},       {{5}, 0},        {{3, 7}, 1},     {{3, 7}, 0},   {{4, 5, 6}, 1},
                                 {{4, 5, 6}, 2}, {{2, 1, 3}, 1},  {{3, 2000}, 1},  {{70, 33}, 0}, {{2, 3, 0}, 1},
                                 {{0, 3}, 1},    {{200, 10}, -1}, {{2, 90, 70}, 1}};

// log of the sum of exp(x), by plain loops in double, spread over the axis.
std::vector<double> reference_log_sums(const Tensor& x, int axis) {
  const int index = axis < 0 ? axis + x.rank() : axis;
  const std::int64_t size = x.shape()[index];
  const std::int64_t inner = x.shape().product(index + 1, x.rank());
  const std::vector<double> v = x.to_vector();
  std::vector<double> result(v.size());
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t first = i / inner / size * size * inner + i % inner;
    double sum = 0;
    for (std::int64_t c = 0; c < size; ++c) sum += std::exp(v[static_cast<std::size_t>(first + c * inner)]);
    result[static_cast<std::size_t>(i)] = std::log(sum);
  }
  return result;
}

TEST_P(SoftmaxTest, Values) {
  for (const auto& [shape, axis] : cases)
    for (const Dtype dtype : {f32, f64, bf16, f16}) {
      SCOPED_TRACE(message(shape, " axis ", axis, " ", dtype));
      const Tensor x = random_tensor(shape, {.dtype = dtype, .device = device(), .low = -4, .high = 4});
      const std::vector<double> log_sums = reference_log_sums(x, axis);
      std::vector<double> logs = x.to_vector();
      for (std::size_t i = 0; i < logs.size(); ++i) logs[i] -= log_sums[i];
      std::vector<double> expected = logs;
      for (double& value : expected) value = std::exp(value);
      const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 3e-6 : dtype == f16 ? 1e-3 : 8e-3;
      EXPECT_TRUE(close(softmax(x, axis), expected, tolerance, tolerance / 100));
      EXPECT_TRUE(close(log_softmax(x, axis), logs, tolerance, tolerance));
      EXPECT_EQ(softmax(x, axis).dtype(), dtype);
      const Tensor kept = logsumexp(x, axis, {.keepdim = true});
      EXPECT_EQ(kept.shape(), shape.replaced(axis < 0 ? axis + shape.rank() : axis, 1));
      EXPECT_EQ(logsumexp(x, axis).shape(), shape.without(axis < 0 ? axis + shape.rank() : axis));
      if (x.numel() > 0) {
        EXPECT_NEAR(kept.to_vector()[0], log_sums[0], tolerance * 10);
      }
    }
}

TEST_P(SoftmaxTest, LargeAndInfiniteArguments) {
  const Tensor x = Tensor::from({3, 3}, {1000, 0, -1000, -inf, 0, -inf, 1e30, 1e30, 0}, {.device = device()});
  EXPECT_TRUE(close(softmax(x), std::vector<double>{1, 0, 0, 0, 1, 0, 0.5, 0.5, 0}));
  EXPECT_TRUE(close(logsumexp(x), std::vector<double>{1000, 0, 1e30}));
  EXPECT_TRUE(close(slice(log_softmax(x), 0, 0, 2), std::vector<double>{0, -1000, -2000, -inf, 0, -inf}));
  const Tensor odd = Tensor::from({3, 2}, {-inf, -inf, inf, 0, nan, 0}, {.device = device()});
  EXPECT_TRUE(close(logsumexp(odd), std::vector<double>{-inf, inf, nan}));
  EXPECT_TRUE(close(softmax(odd), std::vector<double>(6, nan)));
}

TEST_P(SoftmaxTest, Gradients) {
  for (const auto& [shape, axis] : std::vector<Case>{{{5}, 0}, {{3, 4}, 1}, {{3, 4}, 0}, {{2, 3, 2}, 1}, {{2, 1}, 1}}) {
    SCOPED_TRACE(message(shape, " axis ", axis));
    const Tensor x = random_leaf(shape, device(), 1, -2, 2);
    const std::vector<GradcheckFunction> functions = {
        [&](const auto& in) { return softmax(in[0], axis); },
        [&](const auto& in) { return log_softmax(in[0], axis); },
        [&](const auto& in) { return logsumexp(in[0], axis); },
        [&](const auto& in) { return logsumexp(in[0], axis, {.keepdim = true}); },
    };
    for (const auto& function : functions) {
      EXPECT_TRUE(gradcheck(function, {x}));
      EXPECT_TRUE(gradgradcheck(function, {x}));
    }
  }
}

// The kernel of the first derivative and the operators of the second say the same.
TEST_P(SoftmaxTest, KernelAndOperatorsAgree) {
  for (const auto& [shape, axis] : cases) {
    if (shape.numel() == 0) continue;
    const Tensor x = random_tensor(shape, {.dtype = f32, .device = device(), .requires_grad = true});
    const Tensor upstream = random_tensor(shape, {.dtype = f32, .device = device(), .seed = 3});
    for (const bool logarithm : {false, true}) {
      const Tensor y = logarithm ? log_softmax(x, axis) : softmax(x, axis);
      const Tensor fused = grad(y, {x}, {.retain_graph = true, .grad_outputs = {upstream}})[0];
      const Tensor composed = grad(y, {x}, {.create_graph = true, .grad_outputs = {upstream}})[0];
      EXPECT_TRUE(close(fused, composed, 1e-5, 1e-5)) << shape;
    }
  }
}

TEST_P(SoftmaxTest, WrongArgumentsAreErrors) {
  EXPECT_TRUE(throws_error([] { softmax(Tensor::zeros({2}, {.dtype = i32})); }, {"softmax", "i32"}));
  EXPECT_TRUE(throws_error([] { log_softmax(Tensor::zeros({2}), 1); }, {"log_softmax", "axis 1", "[2]"}));
  EXPECT_TRUE(throws_error([] { logsumexp(Tensor::zeros({})); }, {"logsumexp", "[]"}));
}

TEST(Softmax, DoesNotDependOnTheThreadCount) {
  const int before = num_threads();
  for (const auto& [shape, axis] : cases) {
    const Tensor x = random_tensor(shape, {.dtype = f32});
    set_num_threads(1);
    const Tensor one = softmax(x, axis);
    for (const int threads : {2, 3}) {
      set_num_threads(threads);
      EXPECT_TRUE(bit_equal(softmax(x, axis), one)) << shape;
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace bevel
