// Losses from a user's formula.
#include "ops/loss/two_compilers/formula.h"

#include <bevel/ops/gradcheck.h>

#include "testing.h"

namespace bevel::testing {
namespace {

// The functions that may be used on `device`: those compiled by g++ know the CPU alone.
std::vector<GradcheckFunction> functions(Device device, const LossOptions& options) {
  std::vector<GradcheckFunction> result;
  if (!device.is_cuda()) {
    result.push_back([=](const auto& in) { return cubic_from_cpp(in[0], in[1], options); });
    result.push_back([=](const auto& in) { return pair_from_cpp(in[0], in[1], options); });
  }
  if constexpr (has_cuda) {
    result.push_back([=](const auto& in) { return cubic_from_cuda(in[0], in[1], options); });
    result.push_back([=](const auto& in) { return pair_from_cuda(in[0], in[1], options); });
  }
  return result;
}

class PointwiseLossTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, PointwiseLossTest, ::testing::ValuesIn(build_devices()), device_name);

TEST_P(PointwiseLossTest, GradcheckOfFirstAndSecondOrder) {
  const Tensor weight = random_tensor({4, 1}, {.device = device(), .low = 0.5, .high = 2, .seed = 3});
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum})
    for (const bool fused : {true, false})
      for (const GradcheckFunction& loss :
           functions(device(), {.reduction = reduction, .weight = weight, .scale = 2, .fused = fused})) {
        const Tensor input = random_leaf({4, 3}, device(), 1, -1, 1);
        const Tensor target = random_leaf({4, 3}, device(), 2, 1.5, 2.5);
        EXPECT_TRUE(gradcheck(loss, {input, target}));
        EXPECT_TRUE(gradgradcheck(loss, {input, target}));
        EXPECT_TRUE(gradgradcheck(loss, {input.detach(), target}));
      }
}

TEST_P(PointwiseLossTest, ClosedFormInEveryDtype) {
  for (const Dtype dtype : {f32, f64, bf16, f16}) {
    const Tensor input = random_tensor({1001}, {.dtype = dtype, .device = device(), .seed = 1, .requires_grad = true});
    const Tensor target = random_tensor(
        {1001}, {.dtype = dtype, .device = device(), .low = 1.5, .high = 2.5, .seed = 2, .requires_grad = true});
    const double tol = dtype == f64 ? 1e-14 : dtype == f32 ? 1e-6 : 2e-2;
    const std::vector<double> x = input.to_vector();
    const std::vector<double> t = target.to_vector();
    int formula = 0;
    for (const GradcheckFunction& loss : functions(device(), {.reduction = Reduction::sum})) {
      std::vector<double> d_input, d_target;
      double total = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double d = x[i] - t[i];
        const double e = std::exp(x[i] / t[i]);
        const bool is_cubic = formula % 2 == 0;
        total += is_cubic ? std::abs(d * d * d) / 3 : t[i] * t[i] * e;
        d_input.push_back(is_cubic ? d * std::abs(d) : t[i] * e);
        d_target.push_back(is_cubic ? -d * std::abs(d) : (2 * t[i] - x[i]) * e);
      }
      ++formula;
      input.set_grad({});
      target.set_grad({});
      const Tensor value = loss({input, target});
      EXPECT_TRUE(close(value, {total}, 1e-6));
      value.backward();
      EXPECT_TRUE(close(input.grad(), d_input, tol, tol));
      EXPECT_TRUE(close(target.grad(), d_target, tol, tol));
    }
  }
}

TEST(PointwiseLossErrorTest, IsCalledByTheFormulasName) {
  const Tensor a = Tensor::zeros({2});
  const Tensor b = Tensor::zeros({3});
  EXPECT_TRUE(throws_error([&] { cubic_from_cpp(a, b, {}); }, {"cubic", "[2]", "[3]"}));
  EXPECT_TRUE(throws_error([&] { pair_from_cpp(a, b, {}); }, {"pointwise_loss", "[2]", "[3]"}));
}

class PointwiseLossCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(PointwiseLossCudaTest, FormulaCompiledByTheHostCompilerSaysSo) {
  const Tensor input = Tensor::zeros({2}, {.device = cuda()});
  EXPECT_TRUE(throws_error([&] { cubic_from_cpp(input, input, {}); }, {"a GPU", "nvcc", ".cu"}));
}

TEST_F(PointwiseLossCudaTest, BothCompilersMeetInOneProgram) {
  if constexpr (has_cuda) {
    const Tensor input = random_tensor({1001}, {.dtype = f32, .seed = 1});
    const Tensor target = random_tensor({1001}, {.dtype = f32, .seed = 2});
    const Tensor expected = cubic_from_cpp(input, target, {});
    EXPECT_TRUE(close(cubic_from_cuda(input, target, {}), expected, 1e-6));
    EXPECT_TRUE(close(cubic_from_cuda(input.to(cuda()), target.to(cuda()), {}), expected, 1e-6));
  }
}

}  // namespace
}  // namespace bevel::testing
