// The contract of smooth L1, row by row; most of it is the contract of every loss.
#include <bevel/core/parallel.h>
#include <bevel/ops/gradcheck.h>
#include <bevel/ops/loss/smooth_l1.h>
#include <bevel/ops/pointwise/binary.h>

#include "testing.h"

namespace bevel::testing {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Closed {
  std::vector<double> loss;
  std::vector<double> gradient;
};

// The definition, in double.
Closed closed_form(const std::vector<double>& input, const std::vector<double>& target, double beta) {
  Closed result;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const double d = input[i] - target[i];
    const bool is_quadratic = std::abs(d) < beta;
    result.loss.push_back(is_quadratic ? d * d / (2 * beta) : std::abs(d) - beta / 2);
    result.gradient.push_back(is_quadratic ? d / beta : d > 0 ? 1 : d < 0 ? -1 : d == 0 ? 0 : nan);
  }
  return result;
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

std::vector<double> times(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

struct Tolerance {
  double value;
  double gradient;
};
Tolerance tolerance(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return {1e-14, 1e-14};
    case Dtype::bf16:
      return {1e-2, 1e-2};
    case Dtype::f16:
      return {2e-3, 2e-3};
    default:
      return {1e-6, 1e-6};
  }
}

constexpr Dtype floating[] = {f32, f64, bf16, f16};

class SmoothL1Test : public DeviceTest {
 protected:
  static Tensor values(std::initializer_list<double> list, Dtype dtype = f64, bool requires_grad = true) {
    return Tensor::from({static_cast<std::int64_t>(list.size())}, list,
                        {.dtype = dtype, .device = device(), .requires_grad = requires_grad});
  }
  static Tensor random(const Shape& shape, Dtype dtype, std::uint64_t seed, bool requires_grad = false) {
    return random_tensor(
        shape,
        {.dtype = dtype, .device = device(), .low = -2, .high = 2, .seed = seed, .requires_grad = requires_grad});
  }
  static Tensor scalar(double value, Dtype dtype = f64) {
    return Tensor::scalar(value, {.dtype = dtype, .device = device()});
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, SmoothL1Test, ::testing::ValuesIn(build_devices()), device_name);

TEST_P(SmoothL1Test, ClosedFormForEveryReductionDtypeAndSize) {
  for (const Dtype dtype : floating)
    for (const std::int64_t size : {1, 3, 4, 7, 16, 255, 1027, 70001})
      for (const double beta : {1.0, 1.0 / 9, 0.0})
        for (const bool fused : {true, false}) {
          SCOPED_TRACE(message(dtype, " ", size, " beta ", beta, " fused ", fused));
          const Tensor input = random({size}, dtype, 1, true);
          const Tensor target = random({size}, dtype, 2);
          const Closed expected = closed_form(input.to_vector(), target.to_vector(), beta);
          const auto [rtol, gradient_tol] = tolerance(dtype);

          const Tensor none = smooth_l1(input, target, {.beta = beta, .reduction = Reduction::none, .fused = fused});
          EXPECT_EQ(none.dtype(), dtype);
          EXPECT_TRUE(close(none, expected.loss, rtol, rtol));
          const Tensor upstream = random({size}, dtype, 3);
          none.backward(upstream);
          std::vector<double> gradient = upstream.to_vector();
          for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] *= expected.gradient[i];
          EXPECT_TRUE(close(input.grad(), gradient, gradient_tol, 10 * gradient_tol));
          input.set_grad({});

          const double count = static_cast<double>(size);
          const Tensor mean = smooth_l1(input, target, {.beta = beta, .fused = fused});
          EXPECT_EQ(mean.dtype(), compute_dtype(dtype));
          EXPECT_TRUE(close(mean, {sum(expected.loss) / count}, 1e-6));
          mean.backward(scalar(-2.5, mean.dtype()));
          EXPECT_TRUE(
              close(input.grad(), times(expected.gradient, -2.5 / count), gradient_tol * 2, gradient_tol * 4 / count));
          input.set_grad({});

          const Tensor total = smooth_l1(input, target, {.beta = beta, .reduction = Reduction::sum, .fused = fused});
          EXPECT_TRUE(close(total, {sum(expected.loss)}, 1e-6));
          total.backward();
          EXPECT_TRUE(close(input.grad(), expected.gradient, gradient_tol, 4 * gradient_tol));
        }
}

TEST_P(SmoothL1Test, GradcheckOfFirstAndSecondOrder) {
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum})
    for (const bool fused : {true, false}) {
      SCOPED_TRACE(message(name(reduction), " fused ", fused));
      const SmoothL1Options options{.beta = 0.7, .reduction = reduction, .scale = 1.5, .fused = fused};
      const auto f = [&](const std::vector<Tensor>& in) { return smooth_l1(in[0], in[1], options); };
      const Tensor input = random_leaf({3, 7}, device(), 11);
      const Tensor target = random_leaf({3, 7}, device(), 12);
      EXPECT_TRUE(gradcheck(f, {input, target}));
      EXPECT_TRUE(gradgradcheck(f, {input, target}));
      const Tensor constant = random_tensor({3, 7}, {.device = device(), .seed = 12});
      EXPECT_TRUE(gradgradcheck(f, {input, constant}));
      EXPECT_TRUE(gradgradcheck(f, {constant, target}));
    }
}

TEST_P(SmoothL1Test, GradcheckWithWeights) {
  const Tensor by_element = random_tensor({3, 5}, {.device = device(), .low = 0, .seed = 13});
  const Tensor by_row = random_tensor({3, 1}, {.device = device(), .low = 0, .seed = 14});
  for (const Tensor& weight : {by_element, by_row})
    for (const bool fused : {true, false}) {
      const SmoothL1Options options{.beta = 0.7, .weight = weight, .normalizer = 7, .fused = fused};
      const auto f = [&](const std::vector<Tensor>& in) { return smooth_l1(in[0], in[1], options); };
      const Tensor input = random_leaf({3, 5}, device(), 11);
      const Tensor target = random_leaf({3, 5}, device(), 12);
      EXPECT_TRUE(gradcheck(f, {input, target}));
      EXPECT_TRUE(gradgradcheck(f, {input, target}));
    }
}

TEST_P(SmoothL1Test, SecondDerivativeAndErrorOfTheThird) {
  const Tensor input = values({0.1, -0.2, 0.5, 0, 3});
  const Tensor target = values({0, 0, 0, 0, 0}, f64, false);
  for (const double beta : {0.5, 0.0}) {
    const Tensor loss = smooth_l1(input, target, {.beta = beta, .reduction = Reduction::sum});
    const Tensor gradient = grad(loss, {input}, {.create_graph = true})[0];
    const Tensor ones = values({1, 1, 1, 1, 1}, f64, false);
    const Gradients second =
        grad(std::span(&gradient, 1), std::span(&input, 1), {.retain_graph = true, .grad_outputs = {ones}});
    const double inner = beta == 0 ? 0 : 1 / beta;
    EXPECT_TRUE(close(second[0], {inner, inner, 0, inner, 0}));
    EXPECT_TRUE(throws_error(
        [&] { grad(std::span(&gradient, 1), std::span(&input, 1), {.create_graph = true, .grad_outputs = {ones}}); },
        {"smooth_l1", "no differentiable backward"}));
  }
}

TEST_P(SmoothL1Test, BetaZeroIsL1AlsoAfterRounding) {
  for (const double beta : {0.0, 1e-50, 1e-320}) {
    const Dtype dtype = beta == 1e-320 ? bf16 : f32;
    const Tensor input = values({0, 1e-30, -2, 3}, dtype);
    const Tensor target = values({0, 0, 0, 0}, dtype, false);
    const Tensor loss = smooth_l1(input, target, {.beta = beta, .reduction = Reduction::none});
    EXPECT_TRUE(close(loss, {0, 1e-30, 2, 3}, 4e-3, 0));
    loss.backward(values({1, 1, 1, 1}, dtype, false));
    EXPECT_TRUE(close(input.grad(), {0, 1, -1, 1}, 0, 0));
  }
  // In f64 a beta of 1e-50 is not 0.
  const Tensor input = values({5e-51, -1});
  smooth_l1(input, values({0, 0}, f64, false), {.beta = 1e-50, .reduction = Reduction::sum}).backward();
  EXPECT_TRUE(close(input.grad(), {0.5, -1}, 1e-12));
}

TEST_P(SmoothL1Test, TinyAndHugeBetaAndErrors) {
  const Tensor tiny = values({4e-41, -4e-39, 1e-10}, f32);
  const Tensor zeros = values({0, 0, 0}, f32, false);
  smooth_l1(tiny, zeros, {.beta = 1e-40, .reduction = Reduction::sum}).backward();
  EXPECT_TRUE(close(tiny.grad(), {0.4, -1, 1}, 1e-4));
  const Tensor huge = values({1e20, -3e20, 2e37}, f32);
  const Tensor loss = smooth_l1(huge, zeros, {.beta = 1e37, .reduction = Reduction::none});
  EXPECT_TRUE(close(loss, {0.5e3, 4.5e3, 1.5e37}, 1e-5));
  loss.backward(values({1, 1, 1}, f32, false));
  EXPECT_TRUE(close(huge.grad(), {1e-17, -3e-17, 1}, 1e-5, 0));
}

TEST_P(SmoothL1Test, NanAndInfinity) {
  for (const Dtype dtype : floating)
    for (const double beta : {1.0, 0.0})
      for (const bool fused : {true, false}) {
        SCOPED_TRACE(message(dtype, " beta ", beta, " fused ", fused));
        const Tensor input = values({nan, 0, inf, -inf, 1, 0, inf}, dtype);
        const Tensor target = values({0, nan, 0, 0, inf, -inf, inf}, dtype, false);
        const std::vector<double> loss{nan, nan, inf, inf, inf, inf, nan};
        const std::vector<double> gradient{nan, nan, 1, -1, -1, 1, nan};
        EXPECT_TRUE(close(smooth_l1(input, target, {.beta = beta, .reduction = Reduction::none}), loss, 0, 0));
        smooth_l1(input, target, {.beta = beta, .reduction = Reduction::sum, .fused = fused}).backward();
        EXPECT_TRUE(close(input.grad(), gradient, 0, 0));
      }
}

TEST_P(SmoothL1Test, WeightsSelectOut) {
  for (const Dtype dtype : floating)
    for (const bool fused : {true, false}) {
      const Tensor input = values({nan, 2, inf, 3}, dtype);
      const Tensor target = values({0, 0, 0, nan}, dtype, false);
      const Tensor weight = values({0, 0.5, 0, 0}, dtype, false);
      const Tensor loss = smooth_l1(input, target, {.weight = weight, .fused = fused});
      EXPECT_EQ(loss.item(), 0.5 * 1.5 / 4);  // the count does not know of weights
      loss.backward();
      EXPECT_TRUE(close(input.grad(), {0, 0.125, 0, 0}, 0, 0));
      EXPECT_TRUE(
          close(smooth_l1(input, target, {.reduction = Reduction::none, .weight = weight}), {0, 0.75, 0, 0}, 0, 0));
    }
}

TEST_P(SmoothL1Test, WeightsByRow) {
  const std::int64_t rows = 37;
  for (const std::int64_t columns : {4, 5, 1})
    for (const Dtype dtype : {f32, f64, f16}) {
      const Tensor input = random({rows, columns}, dtype, 1, true);
      const Tensor target = random({rows, columns}, dtype, 2);
      const Tensor weight = random({rows, 1}, dtype, 3);
      const std::vector<double> w = weight.to_vector();
      const Closed expected = closed_form(input.to_vector(), target.to_vector(), 1);
      double total = 0;
      std::vector<double> gradient = expected.gradient;
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        total += w[static_cast<std::size_t>(i / columns)] * expected.loss[static_cast<std::size_t>(i)];
        gradient[static_cast<std::size_t>(i)] *= w[static_cast<std::size_t>(i / columns)];
      }
      const Tensor loss = smooth_l1(input, target, {.reduction = Reduction::sum, .weight = weight});
      EXPECT_TRUE(close(loss, {total}, 1e-5, 1e-5));
      loss.backward();
      EXPECT_TRUE(close(input.grad(), gradient, 2e-3, 2e-3));
    }
}

TEST_P(SmoothL1Test, NormalizerAndScale) {
  const Tensor input = values({1, 2, 3, 4}, f32);
  const Tensor target = values({0, 0, 0, 0}, f32, false);  // the losses sum to 8
  const auto check = [&](const SmoothL1Options& options, double loss, double gradient) {
    const Tensor value = smooth_l1(input, target, options);
    EXPECT_FLOAT_EQ(static_cast<float>(value.item()), static_cast<float>(loss));
    input.set_grad({});
    value.backward();
    EXPECT_TRUE(close(input.grad(), {gradient, gradient, gradient, gradient}, 1e-6, 0));
  };
  for (const bool fused : {true, false}) {
    check({.normalizer = 16, .fused = fused}, 0.5, 1.0 / 16);
    check({.normalizer = scalar(16, f32), .fused = fused}, 0.5, 1.0 / 16);
    check({.normalizer = 0, .fused = fused}, 0, 0);
    check({.normalizer = scalar(0, f64), .fused = fused}, 0, 0);
    check({.scale = 3, .fused = fused}, 6, 0.75);
    check({.scale = scalar(3, f32), .fused = fused}, 6, 0.75);
    check({.scale = scalar(3, f64), .normalizer = scalar(16, f64), .fused = fused}, 1.5, 3.0 / 16);
    check({.reduction = Reduction::sum, .scale = 3, .fused = fused}, 24, 3);
  }
  const Tensor none = smooth_l1(input, target, {.reduction = Reduction::none, .scale = scalar(2, f32)});
  EXPECT_TRUE(close(none, {1, 3, 5, 7}, 0, 0));
  // A normaliser of 0 wins over NaN, too.
  const Tensor bad = values({nan, inf}, f32);
  for (const bool fused : {true, false}) {
    const Tensor loss = smooth_l1(bad, values({0, 0}, f32, false), {.normalizer = 0, .fused = fused});
    EXPECT_EQ(loss.item(), 0);
    bad.set_grad({});
    loss.backward();
    EXPECT_TRUE(close(bad.grad(), {0, 0}, 0, 0));
  }
}

TEST_P(SmoothL1Test, LossScaleKeepsHalfGradientsAlive) {
  // Divided by the count before it is scaled, a gradient of f16 would be 0.
  const std::int64_t count = 1 << 20;
  const Tensor input = random({count}, f16, 1, true);
  const Tensor target = random({count}, f16, 2);
  smooth_l1(input, target, {.scale = 65536}).backward();
  const Closed expected = closed_form(input.to_vector(), target.to_vector(), 1);
  EXPECT_TRUE(close(input.grad(), times(expected.gradient, 65536.0 / static_cast<double>(count)), 1e-3, 1e-7));
}

TEST_P(SmoothL1Test, EmptyInputGivesZeroConnectedToTheGraph) {
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    for (const Dtype dtype : floating)
      for (const bool fused : {true, false}) {
        const Tensor input = Tensor::zeros({0, 4}, {.dtype = dtype, .device = device(), .requires_grad = true});
        const Tensor target = Tensor::zeros({0, 4}, {.dtype = dtype, .device = device()});
        const Tensor loss = smooth_l1(input, target, {.reduction = reduction, .fused = fused});
        ASSERT_TRUE(loss.requires_grad());
        if (reduction == Reduction::none) {
          EXPECT_EQ(loss.shape(), input.shape());
          loss.backward(target);
        } else {
          EXPECT_EQ(loss.shape(), Shape{});
          EXPECT_EQ(loss.item(), 0);
          loss.backward(scalar(3, loss.dtype()));
        }
        ASSERT_TRUE(input.grad().defined());
        EXPECT_EQ(input.grad().shape(), input.shape());
      }
}

TEST_P(SmoothL1Test, TargetGradientOnlyWhenAskedFor) {
  for (const bool fused : {true, false}) {
    const Tensor a = random({33}, f32, 1, true);
    const Tensor b = random({33}, f32, 2, true);
    const Tensor c = random({33}, f32, 2);
    smooth_l1(a, c, {.fused = fused}).backward();
    const Tensor only_input = a.grad();
    EXPECT_FALSE(c.grad().defined());
    a.set_grad({});
    smooth_l1(a, b, {.fused = fused}).backward();
    EXPECT_TRUE(bit_equal(a.grad(), only_input));
    EXPECT_TRUE(close(b.grad(), times(only_input.to_vector(), -1), 0, 0));
    const Tensor both = b.grad();
    b.set_grad({});
    smooth_l1(a.detach(), b, {.fused = fused}).backward();
    EXPECT_TRUE(bit_equal(b.grad(), both));
  }
}

TEST_P(SmoothL1Test, FusedEqualsUnfusedToTheBit) {
  for (const Dtype dtype : floating)
    for (const std::int64_t size : {5, 4096, 100003})
      for (const int weighting : {0, 1, 2})
        for (const double upstream : {1.0, 0.37}) {
          if (upstream != 1 && is_half(dtype)) continue;
          SCOPED_TRACE(message(dtype, " ", size, " weighting ", weighting, " upstream ", upstream));
          const Tensor a = random({size, 3}, dtype, 1, true);
          const Tensor b = random({size, 3}, dtype, 2, true);
          Tensor weight;
          if (weighting) weight = random({size, weighting == 1 ? 3 : 1}, dtype, 3);
          Tensor loss[2], d_input[2], d_target[2];
          for (const bool fused : {false, true}) {
            a.set_grad({});
            b.set_grad({});
            loss[fused] = smooth_l1(a, b, {.beta = 0.3, .weight = weight, .scale = 7, .fused = fused});
            if (upstream == 1)
              loss[fused].backward();
            else
              loss[fused].backward(scalar(upstream, loss[fused].dtype()));
            d_input[fused] = a.grad();
            d_target[fused] = b.grad();
          }
          EXPECT_TRUE(bit_equal(loss[1], loss[0]));
          EXPECT_TRUE(bit_equal(d_input[1], d_input[0]));
          EXPECT_TRUE(bit_equal(d_target[1], d_target[0]));
        }
}

TEST_P(SmoothL1Test, FusedBackwardHandsOnItsBuffer) {
  const Tensor input = random({1 << 16}, f32, 1, true);
  const Tensor target = random({1 << 16}, f32, 2);
  smooth_l1(input, target).backward();  // makes what is made once
  input.set_grad({});
  const auto before = memory_stats(device()).live;
  reset_peak_memory(device());
  smooth_l1(input, target).backward();
  const auto peak = memory_stats(device()).peak - before;
  EXPECT_LE(peak, static_cast<std::size_t>(input.bytes()) * 5 / 4 + 4096);  // one gradient (in a reused block), scalars
}

TEST_P(SmoothL1Test, RetainedGraphGivesTheSameGradientTwice) {
  for (const bool unit : {true, false}) {
    const Tensor input = random({1000}, f32, 1, true);
    const Tensor target = random({1000}, f32, 2);
    const Tensor loss = smooth_l1(input, target);
    const Tensor upstream = unit ? Tensor() : scalar(0.3, f32);
    backward(loss, upstream, {.retain_graph = true});
    const Tensor first = input.grad().clone();
    input.grad().copy_from(Tensor::zeros({1000}, {.device = device()}));  // must not reach what the node keeps
    input.set_grad({});
    loss.backward(upstream);
    EXPECT_TRUE(bit_equal(input.grad(), first));
  }
}

TEST_P(SmoothL1Test, LossInsideAGraphGetsItsUpstreamGradient) {
  const Tensor weight = random({64}, f64, 1, true);
  const Tensor input = random({64}, f64, 2);
  const Tensor target = random({64}, f64, 3);
  const auto f = [&](const std::vector<Tensor>& in) {
    const Tensor loss = smooth_l1(in[0] * input, target);
    return loss * loss;
  };
  EXPECT_TRUE(gradcheck(f, {weight}));
  EXPECT_TRUE(gradgradcheck(f, {weight}));
}

TEST_P(SmoothL1Test, MisalignedSlicesAndTails) {
  for (const Dtype dtype : floating)
    for (const std::int64_t offset : {1, 2, 3, 5})
      for (const std::int64_t size : {1, 2, 9, 31, 4099})
        for (const bool fused : {true, false}) {
          const Tensor a = random({size + 8}, dtype, 1).view({size}, offset).set_requires_grad();
          const Tensor b = random({size + 8}, dtype, 2).view({size}, offset / 2);
          const Tensor aligned_a = a.detach().clone().set_requires_grad();
          const Tensor aligned_b = b.clone();
          const SmoothL1Options options{.beta = 0.5, .reduction = Reduction::sum, .fused = fused};
          const Tensor loss = smooth_l1(a, b, options);
          const Tensor aligned_loss = smooth_l1(aligned_a, aligned_b, options);
          EXPECT_TRUE(close(loss, aligned_loss, 1e-6));
          loss.backward();
          aligned_loss.backward();
          EXPECT_TRUE(bit_equal(a.grad(), aligned_a.grad()));
        }
}

TEST_P(SmoothL1Test, LargeGradientsEqualThoseOfTheirPieces) {
  const std::int64_t size = (1 << 22) + 1013;
  const std::int64_t piece = 4099;
  for (const Dtype dtype : {f32, f64, f16})
    for (const int weighted : {0, 1}) {
      const Tensor a = random({size}, dtype, 1, true);
      const Tensor b = random({size}, dtype, 2);
      const Tensor w = weighted ? random({size}, dtype, 3) : Tensor();
      smooth_l1(a, b, {.reduction = Reduction::sum, .weight = w}).backward();
      for (const std::int64_t offset : {std::int64_t{0}, std::int64_t{1} << 20, size - piece}) {
        const Tensor part = a.detach().view({piece}, offset).set_requires_grad();
        const Tensor part_weight = weighted ? w.view({piece}, offset) : Tensor();
        smooth_l1(part, b.view({piece}, offset), {.reduction = Reduction::sum, .weight = part_weight}).backward();
        EXPECT_TRUE(bit_equal(a.grad().view({piece}, offset), part.grad()));
      }
    }
}

TEST_P(SmoothL1Test, TheSameBitsAgain) {
  const Tensor input = random({1000003}, f32, 1);
  const Tensor target = random({1000003}, f32, 2);
  const Tensor first = smooth_l1(input, target);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(bit_equal(smooth_l1(input, target), first));
}

TEST_P(SmoothL1Test, MeanOfManyEqualElements) {
  const std::int64_t count = 1 << 24;
  const Tensor input = Tensor::from_values({count}, std::vector<float>(static_cast<std::size_t>(count), 0.1f + 0.5f),
                                           {.device = device()});
  const Tensor target = Tensor::zeros({count}, {.device = device()});
  EXPECT_NEAR(smooth_l1(input, target, {.beta = 0.2}).item(), static_cast<double>(0.1f + 0.5f) - 0.1, 1e-7);
}

TEST_P(SmoothL1Test, WrongUseIsAnError) {
  const Tensor a = Tensor::zeros({2, 3}, {.device = device()});
  const Tensor b = Tensor::zeros({3, 2}, {.device = device()});
  EXPECT_TRUE(throws_error([&] { smooth_l1(a, b); }, {"smooth_l1", "[2, 3]", "[3, 2]"}));
  EXPECT_TRUE(throws_error([&] { smooth_l1(a, Tensor::zeros({2, 1}, {.device = device()})); }, {"[2, 1]"}));
  EXPECT_TRUE(throws_error([&] { smooth_l1(a, Tensor::zeros({2, 3}, {.dtype = f64, .device = device()})); },
                           {"smooth_l1", "f32", "f64"}));
  EXPECT_TRUE(throws_error([&] { smooth_l1(Tensor(), a); }, {"undefined"}));
  for (const Dtype dtype : {i32, i64, u8, boolean}) {
    const Tensor whole = Tensor::zeros({2}, {.dtype = dtype, .device = device()});
    EXPECT_TRUE(throws_error([&] { smooth_l1(whole, whole); }, {"smooth_l1", name(dtype)}));
  }
  for (const double beta : {-1.0, -1e-300, nan, inf})
    EXPECT_TRUE(throws_error([&] { smooth_l1(a, a, {.beta = beta}); }, {"smooth_l1", "beta"}));
  const auto weighted = [&](const Tensor& weight) { smooth_l1(a, a, {.weight = weight}); };
  EXPECT_TRUE(throws_error([&] { weighted(Tensor::zeros({3}, {.device = device()})); }, {"weight", "[3]", "[2, 3]"}));
  EXPECT_TRUE(throws_error([&] { weighted(Tensor::zeros({1, 3}, {.device = device()})); }, {"weight", "[1, 3]"}));
  EXPECT_TRUE(
      throws_error([&] { weighted(Tensor::zeros({2, 3}, {.dtype = f64, .device = device()})); }, {"weight", "f64"}));
  EXPECT_TRUE(throws_error([&] { weighted(Tensor::zeros({2, 3}, {.device = device(), .requires_grad = true})); },
                           {"weight", "gradient"}));
  EXPECT_TRUE(
      throws_error([&] { smooth_l1(a, a, {.reduction = Reduction::sum, .normalizer = 2}); }, {"normalizer", "sum"}));
  EXPECT_TRUE(throws_error([&] { smooth_l1(a, a, {.normalizer = a}); }, {"normalizer", "[2, 3]"}));
  EXPECT_TRUE(throws_error([&] { smooth_l1(a, a, {.scale = nan}); }, {"scale", "finite"}));
}

TEST_P(SmoothL1Test, ChangedInputIsNoticedWhereItIsNeeded) {
  const Tensor input = random({8}, f32, 1, true);
  const Tensor target = random({8}, f32, 2);
  const Tensor unfused = smooth_l1(input, target, {.fused = false});
  const Tensor fused = smooth_l1(input, target);
  target.copy_from(random({8}, f32, 3));
  EXPECT_TRUE(throws_error([&] { unfused.backward(); }, {"smooth_l1", "changed in place"}));
  fused.backward();  // has its gradient already
}

TEST(SmoothL1ThreadsTest, ResultsDoNotDependOnTheThreads) {
  const int before = num_threads();
  const Tensor input = random_tensor({300007}, {.dtype = f32, .seed = 1, .requires_grad = true});
  const Tensor target = random_tensor({300007}, {.dtype = f32, .seed = 2});
  Tensor loss[2], gradient[2];
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    input.set_grad({});
    loss[threads / 2] = smooth_l1(input, target);
    loss[threads / 2].backward();
    gradient[threads / 2] = input.grad();
  }
  set_num_threads(before);
  EXPECT_TRUE(bit_equal(loss[0], loss[1]));
  EXPECT_TRUE(bit_equal(gradient[0], gradient[1]));
}

class SmoothL1CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(SmoothL1CudaTest, AgreesWithTheCpu) {
  for (const Dtype dtype : floating) {
    const Tensor input =
        random_tensor({100003}, {.dtype = dtype, .low = -2, .high = 2, .seed = 1, .requires_grad = true});
    const Tensor target = random_tensor({100003}, {.dtype = dtype, .low = -2, .high = 2, .seed = 2});
    const Tensor gpu_input = input.detach().to(cuda()).set_requires_grad();
    const Tensor loss = smooth_l1(input, target, {.beta = 0.3});
    const Tensor gpu_loss = smooth_l1(gpu_input, target.to(cuda()), {.beta = 0.3});
    EXPECT_TRUE(close(gpu_loss, loss, 1e-6));
    loss.backward();
    gpu_loss.backward();
    EXPECT_TRUE(bit_equal(gpu_input.grad(), input.grad()));
  }
}

TEST_F(SmoothL1CudaTest, MeanOfTwoToThe28Elements) {
  const std::int64_t count = std::int64_t{1} << 28;
  const Tensor input = Tensor::zeros({count}, {.device = cuda()});
  const Tensor target = Tensor::zeros({count}, {.device = cuda()});
  input.copy_from(add(input, 0.6));
  const double expected = static_cast<double>(0.6f) - 0.1;
  EXPECT_NEAR(smooth_l1(input, target, {.beta = 0.2}).item() / expected, 1, 1e-6);
}

// Sizes about those where a kernel's blocks or the groups of their sums become more; each kernel must also leave the
// workspace as it found it.
TEST_F(SmoothL1CudaTest, SumsOverAnyNumberOfBlocks) {
  constexpr std::int64_t tile = 4096;  // floats of a block of a large pass
  const std::int64_t most = 5000 * tile + 9;
  const Tensor input = add(Tensor::zeros({most}, {.device = cuda()}), 2.0);
  const Tensor target = Tensor::zeros({most}, {.device = cuda()});
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{7}, std::int64_t{1024}, std::int64_t{1025},
                                   std::int64_t{1} << 19, (std::int64_t{1} << 19) + 4, 2048 * tile - 1, 2048 * tile,
                                   2048 * tile + 4, 2304 * tile, most, std::int64_t{1}}) {
    const Tensor x = input.view({count}).detach().set_requires_grad();
    const Tensor t = target.view({count});
    const Tensor fused = smooth_l1(x, t, {.reduction = Reduction::sum});
    EXPECT_EQ(fused.item(), static_cast<double>(static_cast<float>(1.5 * static_cast<double>(count)))) << count;
    EXPECT_TRUE(bit_equal(smooth_l1(x.detach(), t, {.reduction = Reduction::sum}), fused)) << count;
    // From the first odd address on, element by element.
    if (count < 5) continue;
    const Tensor odd =
        smooth_l1(input.view({count - 1}, 1), target.view({count - 1}, 1), {.reduction = Reduction::sum});
    EXPECT_EQ(odd.item(), static_cast<double>(static_cast<float>(1.5 * static_cast<double>(count - 1)))) << count;
  }
}

TEST_F(SmoothL1CudaTest, LossScaleOfTwoToThe28HalfElements) {
  const std::int64_t count = std::int64_t{1} << 28;
  const Tensor input = Tensor::zeros({count}, {.dtype = f16, .device = cuda(), .requires_grad = true});
  const Tensor target = Tensor::zeros({count}, {.dtype = f16, .device = cuda()});
  target.view({4}, count - 4).copy_from(Tensor::from({4}, {0.75, -0.6, 0.5, 3}, {.dtype = f16, .device = cuda()}));
  smooth_l1(input, target, {.scale = 65536}).backward();
  const double unit = 65536 / static_cast<double>(count);
  EXPECT_TRUE(close(input.grad().view({4}, count - 4), {-0.75 * unit, 0.6 * unit, -0.5 * unit, -unit}, 1e-3, 0));
}

TEST_F(SmoothL1CudaTest, MoreElementsThan32BitsCount) {
  const std::int64_t count = (std::int64_t{1} << 31) + 12345;
  const Tensor input = Tensor::zeros({count}, {.dtype = bf16, .device = cuda(), .requires_grad = true});
  const Tensor target = Tensor::zeros({count}, {.dtype = bf16, .device = cuda()});
  // Only the last elements differ.
  const Tensor last = target.view({3}, count - 3);
  last.copy_from(Tensor::from({3}, {2, -3, 0.5}, {.dtype = bf16, .device = cuda()}));
  const Tensor loss = smooth_l1(input, target, {.reduction = Reduction::sum});
  EXPECT_EQ(loss.item(), 1.5 + 2.5 + 0.125);
  loss.backward();
  EXPECT_TRUE(close(input.grad().view({4}, count - 4), {0, -1, 1, -0.5}, 0, 0));
}

}  // namespace
}  // namespace bevel::testing
