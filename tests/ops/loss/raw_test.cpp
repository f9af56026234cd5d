// Kernel-level losses give what the functions on tensors give.
#include <bevel/ops/loss/iou.h>
#include <bevel/ops/loss/log_cosh.h>
#include <bevel/ops/loss/raw.h>
#include <bevel/ops/loss/smooth_l1.h>
#include <bevel/ops/pointwise/cast.h>

#include "ops/kernel_level.h"

namespace bevel::testing {
namespace {

constexpr Dtype floating[] = {f32, f64, bf16, f16};

class RawLossTest : public DeviceTest {
 protected:
  template <class F>
  static void run(const F& formula, const raw::LossPass& pass, const Tensor& workspace) {
    on_kernel_level(workspace, [&](const auto& where) { raw::loss(where, formula, pass); });
  }
  static Tensor workspace() { return byte_tensor(raw::loss_workspace_bytes, device()); }
  static Tensor random(std::int64_t count, Dtype dtype, std::uint64_t seed) {
    return random_tensor({count}, {.dtype = dtype, .device = device(), .low = -3, .high = 3, .seed = seed});
  }
  static Tensor like(const Tensor& tensor) { return Tensor::empty(tensor.shape(), tensor.options()); }
  static Tensor number(Dtype dtype) { return Tensor::empty({}, {.dtype = dtype, .device = device()}); }
};
INSTANTIATE_TEST_SUITE_P(Devices, RawLossTest, ::testing::ValuesIn(build_devices()), device_name);

raw::LossPass pass_over(const Tensor& input, const Tensor& target) {
  raw::LossPass pass;
  pass.dtype = input.dtype();
  pass.count = input.numel();
  pass.input = input.raw();
  pass.target = target.raw();
  return pass;
}

// By hand, since the functions on tensors share the passes that they are compared with below.
TEST_P(RawLossTest, EveryFieldOfAPassByHand) {
  const auto tensor = [](std::initializer_list<double> values) {
    return Tensor::from({static_cast<std::int64_t>(values.size())}, values, {.device = device()});
  };
  const Tensor input = tensor({0, 2, -3}), target = tensor({0.5, 0, 0}), weight = tensor({1, 0, 2});
  const Tensor scale = tensor({4}), normalizer = tensor({2}), upstream = tensor({-2});
  const Tensor value = number(f32), d_input = like(input), d_target = like(input);
  raw::LossPass pass = pass_over(input, target);
  pass.weight = weight.raw();
  pass.factor = 0.25;  // times 4 / 2 it is a half
  pass.scale = {scale.raw(), false};
  pass.normalizer = {normalizer.raw(), false};
  pass.value = value.raw();
  pass.d_input = d_input.raw();
  pass.d_target = d_target.raw();
  const Tensor room = workspace();
  run(formula::SmoothL1{1}, pass, room);
  EXPECT_EQ(value.item(), 0.5 * (0.125 + 2 * 2.5));
  EXPECT_TRUE(close(d_input, {-0.25, 0, -1}, 0));
  EXPECT_TRUE(close(d_target, {0.25, 0, 1}, 0));
  pass.weight = nullptr;
  pass.d_target = nullptr;
  run(formula::SmoothL1{1}, pass, room);
  EXPECT_EQ(value.item(), 0.5 * (0.125 + 1.5 + 2.5));
  EXPECT_TRUE(close(d_input, {-0.25, 0.5, -0.5}, 0));
  pass.value = nullptr;
  pass.d_target = d_target.raw();
  pass.upstream = upstream.raw();
  run(formula::SmoothL1{1}, pass, room);
  EXPECT_TRUE(close(d_input, {0.5, -1, 1}, 0));
  EXPECT_TRUE(close(d_target, {-0.5, 1, -1}, 0));
}

// One workspace serves calls of all sizes, one after the other.
TEST_P(RawLossTest, MeanAndGradientAreThoseOfSmoothL1) {
  const Tensor room = workspace();
  for (const Dtype dtype : floating)
    for (const std::int64_t count : {1, 5, 1000, 300001}) {
      const Tensor input = random(count, dtype, 1), target = random(count, dtype, 2);
      const Tensor leaf = input.clone().detach().set_requires_grad();
      const Tensor expected = smooth_l1(leaf, target, {.beta = 0.7});
      expected.backward();
      const Tensor value = number(compute_dtype(dtype)), gradient = like(input);
      raw::LossPass pass = pass_over(input, target);
      pass.factor = 1.0 / static_cast<double>(count);
      pass.value = value.raw();
      pass.d_input = gradient.raw();
      run(formula::SmoothL1{0.7}, pass, room);
      EXPECT_TRUE(bit_equal(value, expected.detach())) << dtype << " " << count;
      EXPECT_TRUE(bit_equal(gradient, leaf.grad())) << dtype << " " << count;
    }
}

TEST_P(RawLossTest, EachElementNeedsNoWorkspace) {
  const Tensor input = random(777, f32, 1), target = random(777, f32, 2), value = like(input);
  raw::LossPass pass = pass_over(input, target);
  pass.value = value.raw();
  pass.value_each = true;
  run(formula::LogCosh{}, pass, byte_tensor(0, device()));
  EXPECT_TRUE(bit_equal(value, log_cosh(input, target, {.reduction = Reduction::none})));
}

TEST_P(RawLossTest, RowsByHand) {
  const Tensor input = Tensor::from({8}, {0, 0, 2, 2, 0, 0, 1, 1}, {.device = device()});
  const Tensor target = Tensor::from({8}, {0, 0, 1, 2, 2, 2, 3, 3}, {.device = device()});
  const Tensor value = Tensor::empty({2}, {.device = device()});
  raw::LossPass pass = pass_over(input, target);
  pass.count = 2;
  pass.value = value.raw();
  pass.value_each = true;
  run(formula::BoxOverlap<formula::Overlap::iou>{}, pass, byte_tensor(0, device()));
  EXPECT_TRUE(close(value, {0.5, 1}, 0));
}

TEST_P(RawLossTest, RowsCountBoxes) {
  Tensor input = random_tensor({300, 4}, {.dtype = f32, .device = device(), .low = 0, .high = 4});
  const Tensor target = random_tensor({300, 4}, {.dtype = f32, .device = device(), .low = 2, .high = 6, .seed = 2});
  const Tensor value = number(f32);
  raw::LossPass pass = pass_over(input, target);
  pass.count = 300;
  pass.factor = 1.0 / 300;
  pass.value = value.raw();
  run(formula::BoxOverlap<formula::Overlap::giou>{}, pass, workspace());
  EXPECT_TRUE(bit_equal(value, giou_loss(input, target)));
}

// A half-precision value is the f32 one rounded; its upstream gradient is of that type, too.
TEST_P(RawLossTest, ReducedValuesOfHalfTypes) {
  for (const Dtype dtype : {bf16, f16}) {
    const Tensor input = random(4099, dtype, 1), target = random(4099, dtype, 2);
    const Tensor value = number(f32), half = number(dtype);
    raw::LossPass pass = pass_over(input, target);
    pass.factor = 1.0 / 4099;
    const Tensor room = workspace();
    pass.value = value.raw();
    run(formula::SmoothL1{1}, pass, room);
    pass.value = half.raw();
    pass.reduced_is_half = true;
    run(formula::SmoothL1{1}, pass, room);
    EXPECT_TRUE(bit_equal(half, cast(value, dtype))) << dtype;

    const Tensor upstream = Tensor::scalar(-2.5, {.dtype = dtype, .device = device()});
    const Tensor wide = Tensor::scalar(-2.5, {.device = device()});
    const Tensor gradient = like(input), expected = like(input);
    pass.value = nullptr;
    pass.upstream = upstream.raw();
    pass.d_input = gradient.raw();
    run(formula::SmoothL1{1}, pass, room);
    pass.reduced_is_half = false;
    pass.upstream = wide.raw();
    pass.d_input = expected.raw();
    run(formula::SmoothL1{1}, pass, room);
    EXPECT_TRUE(bit_equal(gradient, expected)) << dtype;
  }
}

TEST_P(RawLossTest, ScalesGradientsInPlaceAndBeside) {
  for (const Dtype dtype : floating)
    for (const std::int64_t count : {3, 70001}) {
      const Tensor from = random(count, dtype, 1), to = like(from);
      const Dtype wide = compute_dtype(dtype);
      for (const bool half : {false, true})
        for (const double factor : {-1.5, 1.0, 0.0}) {
          const Tensor number = Tensor::scalar(factor, {.dtype = half ? dtype : wide, .device = device()});
          raw::GradientScale scale{dtype, count, from.raw(), number.raw(), half, to.raw()};
          const Tensor none = byte_tensor(0, device());
          on_kernel_level(none, [&](const auto& where) { raw::scale_gradient(where, scale); });
          std::vector<double> expected = from.to_vector();
          for (double& value : expected) value *= factor;
          EXPECT_TRUE(close(to, expected, dtype == bf16 ? 4e-3 : dtype == f16 ? 5e-4 : 1e-7)) << dtype;
          const Tensor own = from.clone();
          scale.from = scale.to = own.raw();
          on_kernel_level(none, [&](const auto& where) { raw::scale_gradient(where, scale); });
          EXPECT_TRUE(bit_equal(own, to)) << dtype << " " << factor;
        }
    }
}

TEST_P(RawLossTest, NoElementsWriteNothing) {
  const Tensor value = Tensor::scalar(7, {.device = device()});
  raw::LossPass pass;
  pass.value = value.raw();
  run(formula::SmoothL1{1}, pass, workspace());
  EXPECT_EQ(value.item(), 7);
}

TEST(RawLossCudaTest, AWorkspaceTooSmallIsAnError) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const Tensor input = Tensor::zeros({8}, {.device = cuda()}), value = Tensor::zeros({}, {.device = cuda()});
  raw::LossPass pass = pass_over(input, input);
  pass.value = value.raw();
  EXPECT_TRUE(throws_error([&] { raw::loss(raw::OnStream{}, formula::SmoothL1{1}, pass); }, {"workspace", "got 0"}));
}

TEST(RawLoss, WithoutCudaAStreamIsAnError) {
  if (has_cuda) GTEST_SKIP() << "this build has CUDA";
  EXPECT_TRUE(throws_error([] { raw::loss(raw::OnStream{}, formula::SmoothL1{1}, {}); }, {"no CUDA"}));
}

}  // namespace
}  // namespace bevel::testing
