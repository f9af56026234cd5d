#include <bevel/core/parallel.h>
#include <bevel/ops/autocast.h>
#include <bevel/ops/gradcheck.h>

#include "norm_reference.h"

namespace bevel {
namespace {

using namespace bevel::testing;

const EvoShape shapes[] = {
    {2, 5, 7, 6, 3},    {1, 1, 5, 4, 2},      {1, 4, 4, 8, 8},    {30, 1, 1, 30, 1},   {2, 3, 3, 33, 11},
    {2, 2, 3, 1000, 8}, {4, 7, 7, 64, 32},    {2, 14, 14, 64, 8}, {1, 56, 56, 16, 4},  {2, 9, 11, 3, 3},
    {5, 9, 11, 3, 1},   {6, 8, 8, 12, 4},     {2, 1, 129, 5, 5},  {3, 13, 13, 256, 2}, {40, 1, 5, 1, 1},
    {8, 1, 3, 20, 5},   {16, 130, 130, 4, 2}, {2, 33, 31, 32, 8},
};

class NormTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, NormTest, ::testing::ValuesIn(build_devices()), device_name);

TEST_P(NormTest, IsTheFormula) {
  for (const EvoShape& s : shapes)
    for_all_norm_modes([&](const NormMode& m) {
      for (const Dtype dtype : {f64, f32}) {
        SCOPED_TRACE(message(s, ", ", dtype));
        const NormInputs in = norm_inputs(s, m.layout, dtype);
        const NormReference expected = norm_reference(m, s, in);
        const NormInputs there = converted(in, dtype, device());
        const double tolerance = dtype == f64 ? 1e-11 : 5e-6;
        EXPECT_TRUE(close(apply_norm(m, s, there), expected.y, tolerance, tolerance));
        EXPECT_TRUE(close(there.mean, expected.mean, tolerance, tolerance));
        EXPECT_TRUE(close(there.var, expected.var, tolerance, tolerance));
      }
    });
}

// Also of gradients, and without parameters and running statistics.
TEST_P(NormTest, GradientsPassFiniteDifferences) {
  for (const EvoShape& s : {EvoShape{3, 3, 2, 6, 2}, EvoShape{2, 1, 1, 4, 2}, EvoShape{1, 3, 3, 3, 3}})
    for_all_norm_modes([&](const NormMode& m) {
      SCOPED_TRACE(message(s));
      const NormInputs in = converted(norm_inputs(s, m.layout, f64, 7), f64, device());
      const auto call = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
        // Running statistics are a state, and the check calls the function many times.
        const bool keep = !m.training;
        return apply_norm(m, s, {x, weight, bias, keep ? in.mean : Tensor(), keep ? in.var : Tensor(), {}}, 1e-2);
      };
      for (const Tensor& leaf : {in.x, in.weight, in.bias}) leaf.set_requires_grad();
      const auto full = [&](const auto& t) { return call(t[0], t[1], t[2]); };
      EXPECT_TRUE(gradcheck(full, {in.x, in.weight, in.bias}, {.step = 1e-6, .atol = 1e-6, .rtol = 1e-5}));
      EXPECT_TRUE(gradcheck([&](const auto& t) { return call(t[0], {}, {}); }, {in.x},
                            {.step = 1e-6, .atol = 1e-6, .rtol = 1e-5}));
      EXPECT_TRUE(gradgradcheck(full, {in.x, in.weight, in.bias}, {.step = 1e-6, .atol = 1e-5, .rtol = 1e-5}));
    });
}

// A backward pass that is recorded gives the same gradients as one that is not.
TEST_P(NormTest, RecordedBackwardIsTheSame) {
  const EvoShape s{2, 3, 5, 12, 4};
  for_all_norm_modes([&](const NormMode& m) {
    for (const Dtype dtype : {f32, bf16}) {
      const NormInputs in = norm_inputs(s, m.layout, dtype);
      const NormOutputs expected = run_norm(m, s, in, dtype, device());
      const NormInputs there = converted(in, dtype, device());
      for (const Tensor& leaf : {there.x, there.weight, there.bias}) leaf.set_requires_grad();
      const Gradients gradients = grad(apply_norm(m, s, there), {there.x, there.weight, there.bias},
                                       {.create_graph = true, .grad_outputs = {there.upstream}});
      EXPECT_TRUE(close_to_scale(gradients[0].detach(), expected.dx, dtype == f32 ? 1e-5 : 4e-3));
      EXPECT_TRUE(close_to_scale(gradients[1].detach(), expected.dweight, 1e-5));
      EXPECT_TRUE(close_to_scale(gradients[2].detach(), expected.dbias, 1e-5));
    }
  });
}

TEST_P(NormTest, SmallTypesAgreeWithDouble) {
  for (const EvoShape& s : shapes)
    for_all_norm_modes([&](const NormMode& m) {
      for (const Dtype dtype : {f32, bf16, f16}) {
        SCOPED_TRACE(message(s, ", ", dtype));
        const NormInputs in = norm_inputs(s, m.layout, dtype, 3);
        const double tolerance = dtype == f32 ? 1e-5 : dtype == bf16 ? 4e-3 : 5e-4;
        expect_close_outputs(run_norm(m, s, in, dtype, device(), 1e-2), run_norm(m, s, in, f64, cpu, 1e-2), tolerance,
                             2e-5);
      }
    });
}

// What is normalised alone becomes the bias, whatever it was.
TEST_P(NormTest, SetsOfOneElement) {
  const EvoShape s{2, 1, 1, 4, 4};
  for (const Layout layout : both_layouts)
    for (const Dtype dtype : {f64, f32, bf16}) {
      const NormInputs in = norm_inputs(s, layout, dtype);
      const NormOutputs out = run_norm({.batch = false, .layout = layout}, s, in, dtype, device());
      const std::vector<double> y = out.y.to_vector(), bias = converted(in.bias, dtype, cpu).to_vector();
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_DOUBLE_EQ(y[i], bias[i % 4]);
      // Differences of equal numbers, times up to 1 / sqrt(eps).
      EXPECT_TRUE(close(out.dx, std::vector<double>(8), 0, dtype == f64 ? 1e-12 : 1e-4));
      EXPECT_TRUE(close(out.dweight, std::vector<double>(4), 0, 0));
    }
}

TEST_P(NormTest, ConstantChannelsStayFinite) {
  const EvoShape s{2, 4, 4, 6, 3};
  for_all_norm_modes([&](const NormMode& m) {
    for (const double value : {0.0, 0.1, 3.0, -20.0}) {
      NormInputs in = norm_inputs(s, m.layout, f32);
      const std::vector<float> constant(static_cast<std::size_t>(in.x.numel()), static_cast<float>(value));
      in.x = Tensor::from_values(in.x.shape(), constant);
      const NormOutputs out = run_norm(m, s, in, f32, device()), expected = run_norm(m, s, in, f64, cpu);
      EXPECT_TRUE(close_to_scale(out.y, expected.y, 1e-5)) << value;
      EXPECT_TRUE(close_to_scale(out.dx, expected.dx, 1e-4)) << value;
      for (const Tensor& tensor : {out.y, out.dx, out.dweight, out.dbias, out.mean, out.var})
        for (const double element : tensor.to_vector()) EXPECT_TRUE(std::isfinite(element));
    }
  });
}

// A variance as E[x^2] - E[x]^2 in f32, or a * x + b with b = bias - a * mean, would have no right digit here.
TEST_P(NormTest, SurvivesALargeOffset) {
  for (const EvoShape& s : {EvoShape{3, 8, 8, 16, 4}, EvoShape{2, 28, 28, 64, 4}})
    for_all_norm_modes([&](const NormMode& m) {
      const NormInputs in = norm_inputs(s, m.layout, f32, 5, 1e4 - 1e-2, 1e4 + 1e-2);
      expect_close_outputs(run_norm(m, s, in, f32, device()), run_norm(m, s, in, f64, cpu), 2e-4, 2e-4);
    });
}

TEST_P(NormTest, HalfPrecisionInputsAbove256) {
  const EvoShape s{2, 9, 9, 16, 4};
  for_all_norm_modes([&](const NormMode& m) {
    const NormInputs in = norm_inputs(s, m.layout, f16, 5, -2000, 3000);
    expect_close_outputs(run_norm(m, s, in, f16, device()), run_norm(m, s, in, f64, cpu), 1e-3, 1e-3);
  });
}

TEST_P(NormTest, NaNComesThrough) {
  const EvoShape s{2, 3, 3, 4, 2};
  for_all_norm_modes([&](const NormMode& m) {
    const NormInputs in = norm_inputs(s, m.layout, f32);
    in.x.data<float>()[s.index(m.layout, 1, 4, 2)] = std::numeric_limits<float>::quiet_NaN();
    const NormOutputs out = run_norm(m, s, in, f32, device());
    const std::vector<double> y = out.y.to_vector(), dx = out.dx.to_vector();
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t p = 0; p < s.h * s.w; ++p)
        for (std::int64_t c = 0; c < s.c; ++c) {
          const bool same_set = m.batch ? c == 2 && (m.training || (n == 1 && p == 4)) : n == 1 && c / 2 == 1;
          const auto i = static_cast<std::size_t>(s.index(m.layout, n, p, c));
          EXPECT_EQ(std::isnan(y[i]), same_set);
          EXPECT_EQ(std::isnan(dx[i]), same_set);
        }
  });
}

TEST_P(NormTest, RunningStatisticsAfterSeveralSteps) {
  const EvoShape s{3, 4, 5, 6, 1};
  const BatchNormOptions training{.momentum = 0.3, .activation = Activation::relu};
  for (const Dtype dtype : {f32, bf16}) {
    const Tensor mean = Tensor::zeros({6}, {.device = device()}),
                 var = converted(Tensor::from({6}, {1, 1, 1, 1, 1, 1}), f32, device());
    std::vector<double> expected_mean(6, 0.0), expected_var(6, 1.0);
    for (std::uint64_t step = 0; step < 5; ++step) {
      const Tensor x = random_tensor(s.shape(Layout::nhwc), {.dtype = dtype, .low = -1, .high = 4, .seed = step});
      for (std::int64_t c = 0; c < 6; ++c) {
        const auto i = static_cast<std::size_t>(c);
        const std::vector<double> values = x.to_vector();
        const auto same = [](double value) { return value; };
        expected_mean[i] *= 0.7;
        expected_mean[i] += 0.3 * testing::detail::mean_over(s, Layout::nhwc, values, 0, 3, c, c + 1, same);
        expected_var[i] *= 0.7;
        expected_var[i] += 0.3 * testing::detail::variance_over(s, Layout::nhwc, values, 0, 3, c, c + 1) * 60 / 59;
      }
      const std::uint64_t versions[] = {mean.version(), var.version()};
      batch_norm(x.to(device()), {}, {}, mean, var, training);
      EXPECT_GT(mean.version(), versions[0]);
      EXPECT_GT(var.version(), versions[1]);
    }
    EXPECT_TRUE(close(mean, expected_mean, 1e-5, 1e-6));
    EXPECT_TRUE(close(var, expected_var, 1e-5, 0));
    // Evaluation leaves them alone.
    const Tensor before[] = {mean.clone(), var.clone()};
    batch_norm(random_tensor(s.shape(Layout::nhwc), {.dtype = dtype, .device = device()}), {}, {}, mean, var,
               {.training = false});
    EXPECT_TRUE(bit_equal(before[0], mean) && bit_equal(before[1], var));
  }
}

bool same_bits(const NormOutputs& a, const NormOutputs& b) {
  return bit_equal(a.y, b.y) && bit_equal(a.dx, b.dx) && bit_equal(a.dweight, b.dweight) && bit_equal(a.dbias, b.dbias);
}

TEST_P(NormTest, TwoRunsGiveTheSameBits) {
  for (const EvoShape& s : {EvoShape{4, 28, 28, 64, 8}, EvoShape{3, 7, 5, 30, 3}})
    for_all_norm_modes([&](const NormMode& m) {
      const NormInputs in = norm_inputs(s, m.layout, f32);
      EXPECT_TRUE(same_bits(run_norm(m, s, in, f32, device()), run_norm(m, s, in, f32, device())));
    });
}

TEST(Norm, ThreadCountDoesNotChangeTheBits) {
  const EvoShape s{5, 9, 9, 24, 6};
  const int threads = num_threads();
  for_all_norm_modes([&](const NormMode& m) {
    const NormInputs in = norm_inputs(s, m.layout, f32);
    set_num_threads(1);
    const NormOutputs one = run_norm(m, s, in, f32, cpu);
    set_num_threads(4);
    EXPECT_TRUE(same_bits(one, run_norm(m, s, in, f32, cpu)));
  });
  set_num_threads(threads);
}

// Views may begin anywhere: kernels that load 16 bytes at once must notice.
TEST_P(NormTest, UnalignedViews) {
  const EvoShape s{2, 4, 4, 16, 4};
  for_all_norm_modes([&](const NormMode& m) {
    for (const Dtype dtype : {f32, bf16}) {
      const NormInputs in = norm_inputs(s, m.layout, dtype);
      NormInputs there = converted(in, dtype, device());
      const Tensor longer = Tensor::zeros({in.x.numel() + 1}, {.dtype = dtype, .device = device()});
      there.x = longer.view(in.x.shape(), 1);
      there.x.copy_from(in.x);
      there.x.set_requires_grad();
      const Tensor y = apply_norm(m, s, there);
      y.backward(there.upstream);
      const NormOutputs expected = run_norm(m, s, in, f64, cpu);
      EXPECT_TRUE(close_to_scale(y.detach(), expected.y, dtype == f32 ? 1e-5 : 4e-3));
      EXPECT_TRUE(close_to_scale(there.x.grad(), expected.dx, dtype == f32 ? 1e-5 : 4e-3));
    }
  });
}

TEST_P(NormTest, KeepsOnlySmallStatistics) {
  const EvoShape s{2, 32, 32, 64, 8};
  for_all_norm_modes([&](const NormMode& m) {
    const NormInputs in = converted(norm_inputs(s, m.layout, f32), f32, device());
    for (const Tensor& leaf : {in.x, in.weight, in.bias}) leaf.set_requires_grad();
    const auto picture = static_cast<std::size_t>(in.x.bytes());
    release_cached_memory(device());  // a cached buffer may be a quarter larger than what is asked for
    const std::size_t before = memory_stats(device()).live;
    const Tensor y = apply_norm(m, s, in);
    EXPECT_LT(memory_stats(device()).live - before - picture, picture / 16);
    reset_peak_memory(device());
    y.backward(in.upstream);
    EXPECT_LT(memory_stats(device()).peak, before + 2 * picture + picture / 8);
  });
}

TEST_P(NormTest, EmptyBatch) {
  const EvoShape s{0, 4, 4, 6, 3};
  for_all_norm_modes([&](const NormMode& m) {
    const NormInputs in = norm_inputs(s, m.layout, f32);
    const NormOutputs out = run_norm(m, s, in, f32, device());
    EXPECT_EQ(out.y.numel(), 0);
    EXPECT_TRUE(close(out.dweight, std::vector<double>(6), 0, 0));
    EXPECT_TRUE(bit_equal(out.mean, in.mean) && bit_equal(out.var, in.var));
  });
}

TEST_P(NormTest, GradientsOnlyWhereWanted) {
  const EvoShape s{2, 3, 3, 4, 2};
  for_all_norm_modes([&](const NormMode& m) {
    const NormInputs in = norm_inputs(s, m.layout, f32);
    const NormOutputs all = run_norm(m, s, in, f32, device());
    const NormInputs there = converted(in, f32, device());
    there.bias.set_requires_grad();
    apply_norm(m, s, there).backward(there.upstream);
    EXPECT_TRUE(bit_equal(there.bias.grad(), all.dbias));
    EXPECT_FALSE(there.weight.grad().defined() || there.x.grad().defined());
  });
}

// Norms are no part of autocast: they compute in the dtype that they are given, with f32 statistics.
TEST_P(NormTest, AutocastChangesNothing) {
  const EvoShape s{2, 3, 3, 4, 2};
  for_all_norm_modes([&](const NormMode& m) {
    const NormInputs in = norm_inputs(s, m.layout, f32);
    const NormOutputs expected = run_norm(m, s, in, f32, device());
    const Autocast half(bf16);
    EXPECT_TRUE(same_bits(run_norm(m, s, in, f32, device()), expected));
  });
}

TEST(Norm, WrongUseNamesTheShapes) {
  const Tensor x = Tensor::zeros({2, 3, 3, 6}), p = Tensor::zeros({6}), q = Tensor::zeros({5});
  const Tensor d = Tensor::zeros({6}, {.dtype = f64}), leaf = Tensor(p.clone()).set_requires_grad();
  EXPECT_TRUE(throws_error([&] { group_norm(x, p, p, {.groups = 4}); }, {"group_norm", "4 groups", "[2, 3, 3, 6]"}));
  EXPECT_TRUE(throws_error([&] { group_norm(x, p, p, {.groups = 0}); }, {"0 groups", "6 channels"}));
  EXPECT_TRUE(throws_error([&] { group_norm(x, q, p, {.groups = 2}); }, {"weight", "[5]", "[2, 3, 3, 6]"}));
  EXPECT_TRUE(throws_error([&] { group_norm(Tensor::zeros({2, 6}), p, p); }, {"group_norm", "4 axes", "[2, 6]"}));
  EXPECT_TRUE(throws_error([&] { batch_norm(x, p, q, p, p); }, {"batch_norm", "bias", "[5]"}));
  EXPECT_TRUE(throws_error([&] { batch_norm(x, d, p, p, p); }, {"weight", "f32", "f64"}));
  EXPECT_TRUE(throws_error([&] { batch_norm(x, p, p, q, p); }, {"running_mean", "[5]"}));
  EXPECT_TRUE(throws_error([&] { batch_norm(x, p, p, p, q); }, {"running_var", "[5]"}));
  EXPECT_TRUE(throws_error([&] { batch_norm(x, p, p, p, {}); }, {"running_mean and running_var", "both"}));
  EXPECT_TRUE(throws_error([&] { batch_norm(x, p, p, {}, {}, {.training = false}); }, {"evaluation", "undefined"}));
  EXPECT_TRUE(throws_error([&] { batch_norm(x, p, p, leaf, p); }, {"must not require a gradient"}));
  EXPECT_TRUE(throws_error([&] { batch_norm(x, p, p, p, p, {.eps = -1}); }, {"eps", "-1"}));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(throws_error([&] { group_norm(x, p, p, {.groups = 2, .eps = infinity}); }, {"eps", "finite", "inf"}));
  EXPECT_TRUE(throws_error([&] { batch_norm(x, p, p, p, p, {.momentum = 2}); }, {"momentum", "2"}));
  EXPECT_TRUE(
      throws_error([&] { batch_norm(x, p, p, p, p, {.activation = Activation::gelu}); }, {"relu or silu", "gelu"}));
  EXPECT_TRUE(throws_error([&] { batch_norm(Tensor::zeros({1, 1, 1, 6}), p, p, p, p); }, {"more than one value"}));
  EXPECT_TRUE(throws_error([&] { batch_norm(Tensor::zeros({1, 2, 2, 6}, {.dtype = i32}), p, p, p, p); }, {"i32"}));
  EXPECT_EQ(p.to_vector(), std::vector<double>(6));
}

}  // namespace
}  // namespace bevel
