#include <bevel/core/parallel.h>
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/softmax/cross_entropy.h>

#include <testing.h>

namespace bevel {
namespace {

using namespace testing;

using CrossEntropyTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, CrossEntropyTest, ::testing::ValuesIn(build_devices()), device_name);

const double nan = std::nan("");

struct Reference {
  std::vector<double> rows;
  std::vector<double> gradient;  // of each row's loss
};

// By plain loops in double.
Reference reference(const Tensor& logits, const std::vector<std::int64_t>& target, double smoothing,
                    std::int64_t ignore) {
  const auto classes = static_cast<std::size_t>(logits.size(1));
  const std::vector<double> x = logits.to_vector();
  Reference result{std::vector<double>(target.size()), std::vector<double>(x.size())};
  for (std::size_t row = 0; row < target.size(); ++row) {
    if (target[row] == ignore) continue;
    double greatest = x[row * classes];
    for (std::size_t c = 0; c < classes; ++c) greatest = std::max(greatest, x[row * classes + c]);
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(x[row * classes + c] - greatest);
    for (std::size_t c = 0; c < classes; ++c) {
      const double log_probability = x[row * classes + c] - greatest - std::log(sum);
      const double q =
          smoothing / static_cast<double>(classes) + (c == static_cast<std::size_t>(target[row]) ? 1 - smoothing : 0);
      if (q != 0) result.rows[row] -= q * log_probability;
      result.gradient[row * classes + c] = std::exp(log_probability) - q;
    }
  }
  return result;
}

Tensor targets(std::int64_t count, std::int64_t classes, Device device, Dtype dtype = i64) {
  return random_tensor({count},
                       {.dtype = dtype, .device = device, .low = 0, .high = static_cast<double>(classes), .seed = 5});
}

TEST_P(CrossEntropyTest, ValuesAndGradients) {
  for (const auto& [count, classes] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {1, 2}, {7, 3}, {64, 10}, {33, 1000}, {3, 5000}})
    for (const Dtype dtype : {f32, f64, bf16, f16})
      for (const double smoothing : {0.0, 0.1}) {
        SCOPED_TRACE(message(count, " x ", classes, " ", dtype, " smoothing ", smoothing));
        const Tensor x = random_tensor(
            {count, classes}, {.dtype = dtype, .device = device(), .low = -3, .high = 3, .requires_grad = true});
        const Tensor target = targets(count, classes, device(), count == 7 ? i32 : i64);
        auto classes_of = target.to_vector<std::int64_t>();
        const std::int64_t ignore = count > 1 ? classes_of[1] : -100;
        const Reference expected = reference(x, classes_of, smoothing, ignore);
        CrossEntropyOptions options{.label_smoothing = smoothing, .ignore_index = ignore};
        const double tolerance = dtype == f64 ? 1e-11 : 1e-5;
        options.reduction = Reduction::none;
        const Tensor rows = cross_entropy(x, target, options);
        EXPECT_EQ(rows.dtype(), dtype == f64 ? f64 : f32);
        EXPECT_TRUE(close(rows, expected.rows, tolerance, tolerance));
        const Tensor upstream = random_tensor({count}, {.dtype = rows.dtype(), .device = device(), .seed = 8});
        rows.backward(upstream);
        std::vector<double> gradient = expected.gradient;
        const auto scale = upstream.to_vector();
        for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] *= scale[i / static_cast<std::size_t>(classes)];
        const double rounding = dtype == f64 ? 1e-11 : dtype == f32 ? 1e-5 : dtype == f16 ? 2e-3 : 1e-2;
        EXPECT_TRUE(close(x.grad(), gradient, rounding, rounding / 100));

        double sum = 0;
        double valid = 0;
        for (std::size_t i = 0; i < classes_of.size(); ++i)
          if (classes_of[i] != ignore) {
            sum += expected.rows[i];
            ++valid;
          }
        options.reduction = Reduction::sum;
        EXPECT_NEAR(cross_entropy(x, target, options).item(), sum, tolerance * (1 + sum));
        options.reduction = Reduction::mean;
        EXPECT_NEAR(cross_entropy(x, target, options).item(), valid > 0 ? sum / valid : 0, tolerance * 10);
      }
}

TEST_P(CrossEntropyTest, IgnoredRowsAddNothingEvenIfNaN) {
  const Tensor x = Tensor::from({3, 2}, {nan, 1, 0, 0, 5, nan}, {.device = device(), .requires_grad = true});
  const Tensor target = Tensor::from({3}, {-100, 1, -100}, {.dtype = i64, .device = device()});
  const Tensor loss = cross_entropy(x, target);
  EXPECT_NEAR(loss.item(), std::log(2.0), 1e-6);
  loss.backward();
  EXPECT_TRUE(close(x.grad(), std::vector<double>{0, 0, 0.5, -0.5, 0, 0}));
}

TEST_P(CrossEntropyTest, NothingGivesZeroConnectedToTheGraph) {
  const Tensor x = Tensor::zeros({0, 4}, {.device = device(), .requires_grad = true});
  const Tensor target = Tensor::zeros({0}, {.dtype = i64, .device = device()});
  for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
    const Tensor loss = cross_entropy(x, target, {.reduction = reduction});
    EXPECT_EQ(loss.item(), 0);
    loss.backward();
  }
  EXPECT_EQ(x.grad().shape(), x.shape());
  const Tensor y = Tensor::zeros({2, 4}, {.device = device(), .requires_grad = true});
  const Tensor ignored = Tensor::from({2}, {-100, -100}, {.dtype = i64, .device = device()});
  const Tensor loss = cross_entropy(y, ignored);
  EXPECT_EQ(loss.item(), 0);
  loss.backward();
  EXPECT_EQ(y.grad().to_vector(), std::vector<double>(8, 0));
}

TEST_P(CrossEntropyTest, NaNAndHugeLogits) {
  const Tensor x = Tensor::from({3, 2}, {nan, 1, 1e30, 0, 0, 3e4}, {.device = device()});
  const Tensor target = Tensor::from({3}, {1, 0, 0}, {.dtype = i64, .device = device()});
  EXPECT_TRUE(close(cross_entropy(x, target, {.reduction = Reduction::none}), std::vector<double>{nan, 0, 3e4}));
}

TEST_P(CrossEntropyTest, Gradients) {
  const Tensor x = random_leaf({4, 3}, device(), 1, -2, 2);
  const Tensor target = Tensor::from({4}, {2, 0, 1, 0}, {.dtype = i64, .device = device()});
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum})
    for (const double smoothing : {0.0, 0.2})
      for (const std::int64_t ignore : {-100, 1}) {
        const CrossEntropyOptions options{reduction, smoothing, ignore};
        const auto loss = [&](const auto& in) { return cross_entropy(in[0], target, options); };
        EXPECT_TRUE(gradcheck(loss, {x}));
        EXPECT_TRUE(gradgradcheck(loss, {x}));
      }
}

// The kernel of the first derivative and the operators of the second say the same, for half types too.
TEST_P(CrossEntropyTest, KernelAndOperatorsAgree) {
  for (const Dtype dtype : {f32, bf16, f16}) {
    const Tensor x = random_tensor({9, 5}, {.dtype = dtype, .device = device(), .requires_grad = true});
    const Tensor target = targets(9, 5, device(), i32);
    const Tensor loss = cross_entropy(x, target, {.label_smoothing = 0.1, .ignore_index = 2});
    const Tensor fused = grad(loss, {x}, {.retain_graph = true})[0];
    const Tensor composed = grad(loss, {x}, {.create_graph = true})[0];
    EXPECT_TRUE(composed.requires_grad());
    EXPECT_EQ(composed.dtype(), dtype);
    EXPECT_TRUE(close(fused, composed, dtype == f32 ? 1e-5 : 1e-2, 1e-6)) << dtype;
  }
}

TEST_P(CrossEntropyTest, WrongArgumentsAreErrors) {
  const Tensor x = Tensor::zeros({2, 3}, {.device = device()});
  const auto target = [&](std::initializer_list<double> values, Dtype dtype = i64) {
    return Tensor::from({static_cast<std::int64_t>(values.size())}, values, {.dtype = dtype, .device = device()});
  };
  EXPECT_TRUE(throws_error([&] { cross_entropy(x, target({1})); }, {"cross_entropy", "[2, 3]", "[1]"}));
  EXPECT_TRUE(throws_error([&] { cross_entropy(x, target({1, 2}, f32)); }, {"cross_entropy", "f32"}));
  EXPECT_TRUE(throws_error([&] { cross_entropy(target({1, 2}, f32), target({1, 2})); }, {"cross_entropy", "[2]"}));
  EXPECT_TRUE(
      throws_error([&] { cross_entropy(x, target({1, 2}), {.label_smoothing = 1.5}); }, {"label_smoothing", "1.5"}));
  if (device().is_cuda())
    EXPECT_TRUE(std::isnan(cross_entropy(x, target({1, 3})).item()));
  else
    EXPECT_TRUE(throws_error([&] { cross_entropy(x, target({1, 3})); }, {"cross_entropy", "target 3", "row 1"}));
}

}  // namespace
}  // namespace bevel
