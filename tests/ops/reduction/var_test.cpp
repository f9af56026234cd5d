#include <bevel/ops/gradcheck.h>
#include <bevel/ops/reduction/var.h>
#include <bevel/ops/shape/broadcast_to.h>

#include "reference.h"

namespace bevel {
namespace {

using namespace testing;

using VarTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, VarTest, ::testing::ValuesIn(build_devices()), device_name);

double variance(const std::vector<double>& v, double correction) {
  double mean = 0;
  for (const double x : v) mean += x / static_cast<double>(v.size());
  double sum = 0;
  for (const double x : v) sum += (x - mean) * (x - mean);
  return v.empty() ? std::nan("") : sum / (static_cast<double>(v.size()) - correction);
}

TEST_P(VarTest, ValuesOverAnyAxes) {
  for (const auto& [shape, axes] : reduce_cases())
    for (const Dtype dtype : {f32, f64, bf16, f16})
      for (const bool unbiased : {false, true}) {
        SCOPED_TRACE(message(shape, " ", dtype, " ", unbiased));
        const Tensor x = random_tensor(shape, {.dtype = dtype, .device = device(), .low = 1, .high = 4});
        const auto expected =
            reference_reduce(x, axes, [&](const std::vector<double>& v) { return variance(v, unbiased ? 1 : 0); });
        const double rtol = dtype == f64 ? 1e-10 : dtype == f32 ? 2e-6 : 5e-3;
        const Tensor y = var(x, axes, {.unbiased = unbiased});
        EXPECT_TRUE(close(y, expected, rtol, 1e-12));
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_EQ(var(x, axes, {.keepdim = true}).rank(), x.rank());
      }
}

// The mean of the squares less the square of the mean would be off by thousands here.
TEST_P(VarTest, AFarMeanDoesNotHurt) {
  const Tensor x = Tensor::from({4}, {1e6f, 1e6f + 1, 1e6f + 2, 1e6f + 3}, {.device = device()});
  EXPECT_NEAR(var(x).item(), 1.25, 1e-6);
  EXPECT_EQ(var(broadcast_to(Tensor::scalar(1234.5, {.device = device()}), {100000})).item(), 0);
}

TEST_P(VarTest, OneElement) {
  const Tensor x = Tensor::from({1}, {3}, {.device = device()});
  EXPECT_EQ(var(x).item(), 0);
  EXPECT_TRUE(std::isnan(var(x, {}, {.unbiased = true}).item()));
  EXPECT_TRUE(throws_error([] { var(Tensor::zeros({2}, {.dtype = i32})); }, {"var", "i32"}));
}

TEST_P(VarTest, Gradients) {
  for (const auto& [shape, axes] :
       std::vector<ReduceCase>{{{4}, {}}, {{3, 4}, {0}}, {{2, 3, 2}, {0, 2}}, {{2, 3, 2}, {1}}, {{3, 2}, {-1}}}) {
    SCOPED_TRACE(message(shape));
    const Tensor x = random_leaf(shape, device());
    for (const bool flag : {false, true}) {
      const VarOptions options{.unbiased = flag, .keepdim = flag};
      EXPECT_TRUE(gradcheck([&](const auto& in) { return var(in[0], axes, options); }, {x}));
      EXPECT_TRUE(gradgradcheck([&](const auto& in) { return var(in[0], axes, options); }, {x}));
    }
  }
}

}  // namespace
}  // namespace bevel
