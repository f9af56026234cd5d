#include <bevel/core/parallel.h>
#include <bevel/ops/gradcheck.h>

#include "evonorm_reference.h"

namespace bevel {
namespace {

using namespace bevel::testing;

const EvoShape shapes[] = {
    {2, 5, 7, 6, 3},    {1, 1, 1, 4, 2},      {1, 4, 4, 8, 8},   {3, 1, 1, 30, 1},
    {2, 3, 3, 33, 11},  {2, 2, 3, 1000, 125}, {4, 7, 7, 64, 32}, {2, 14, 14, 64, 8},
    {1, 56, 56, 16, 8}, {2, 9, 11, 3, 3},     {2, 9, 11, 3, 1},  {5, 8, 8, 12, 4},
    {2, 1, 129, 5, 5},  {3, 13, 13, 256, 2},  {2, 6, 6, 30, 5},  {1, 1, 1, 1, 1},
};

// Calls f(options, text) for every variant, layout and mode.
template <class F>
void for_all_modes(const EvoShape& s, const F& f) {
  for (const EvoNorm variant : all_variants)
    for (const Layout layout : both_layouts)
      for (const bool training : {true, false}) {
        SCOPED_TRACE(message(variant, ", ", layout, training ? ", training, " : ", evaluation, ", s));
        f(EvoNormOptions{.variant = variant, .groups = s.groups, .training = training, .layout = layout});
      }
}

class EvoNormTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, EvoNormTest, ::testing::ValuesIn(build_devices()), device_name);

TEST_P(EvoNormTest, IsTheFormula) {
  for (const EvoShape& s : shapes)
    for_all_modes(s, [&](const EvoNormOptions& o) {
      for (const Dtype dtype : {f64, f32}) {
        const EvoInputs in = evonorm_inputs(s, o, dtype);
        const EvoReference expected = evonorm_reference(s, in.values(), o);
        const EvoOutputs out = run_evonorm(in, o, dtype, device());
        const double tolerance = dtype == f64 ? 1e-12 : 3e-6;
        EXPECT_TRUE(close(out.y, expected.y, tolerance, tolerance));
        if (has_batch_term(o.variant) && s.h * s.w * s.n > 30) {
          EXPECT_GT(expected.batch_wins, 0);
          EXPECT_GT(expected.instance_wins, 0);
        }
        if (!has_batch_term(o.variant)) continue;
        std::vector<double> running = in.running_var.to_vector();
        if (o.training)
          for (std::size_t c = 0; c < running.size(); ++c)
            running[c] = 0.9 * running[c] + 0.1 * expected.batch_variance[c];
        EXPECT_TRUE(close(out.running_var, running, tolerance, tolerance));
      }
    });
}

TEST_P(EvoNormTest, GradientsPassFiniteDifferences) {
  for (const EvoShape& s : {EvoShape{3, 3, 2, 6, 2}, EvoShape{2, 1, 1, 4, 2}, EvoShape{1, 3, 3, 3, 3}})
    for_all_modes(s, [&](EvoNormOptions o) {
      EvoInputs in = evonorm_inputs(s, o, f64, 7);
      if (o.training) in.running_var = Tensor();  // a state: the check calls the function many times
      std::vector<Tensor> inputs;
      for (const Tensor& tensor : {in.x, in.gamma, in.beta, in.v})
        if (tensor.defined()) inputs.push_back(tensor.to(device()).clone().set_requires_grad());
      const Tensor running = in.running_var.defined() ? in.running_var.to(device()) : Tensor();
      // A larger epsilon keeps the variance of a single pixel, which is 0, from making the third derivative huge.
      o.eps = 1e-2;
      EXPECT_TRUE(gradcheck(
          [&](const auto& t) { return evonorm(t[0], t[1], t[2], t.size() > 3 ? t[3] : Tensor(), running, o); }, inputs,
          {.step = 1e-6, .atol = 1e-6, .rtol = 1e-5}));
    });
}

TEST_P(EvoNormTest, SmallTypesAgreeWithDouble) {
  for (const EvoShape& s : shapes)
    for_all_modes(s, [&](const EvoNormOptions& o) {
      for (const Dtype dtype : {f32, bf16, f16}) {
        SCOPED_TRACE(dtype);
        const EvoInputs in = evonorm_inputs(s, o, dtype, 3);
        const EvoOutputs expected = run_evonorm(in, o, f64, cpu);
        const EvoOutputs out = run_evonorm(in, o, dtype, device());
        const double tolerance = dtype == f32 ? 1e-5 : dtype == bf16 ? 4e-3 : 5e-4;
        expect_close_outputs(out, expected, tolerance, 2e-5);
      }
    });
}

TEST_P(EvoNormTest, AffineWithoutNonlinearity) {
  const EvoShape s{2, 5, 3, 12, 4};
  for_all_modes(s, [&](EvoNormOptions o) {
    o.nonlinearity = false;
    EvoInputs in = evonorm_inputs(s, o, f64);
    const std::vector<double> expected = evonorm_reference(s, in.values(), o).y;
    in.running_var = in.v = Tensor();
    EXPECT_TRUE(close(run_evonorm(in, o, f64, device()).y, expected, 1e-14, 1e-14));
    std::vector<Tensor> inputs;
    for (const Tensor& tensor : {in.x, in.gamma, in.beta})
      inputs.push_back(tensor.to(device()).clone().set_requires_grad());
    EXPECT_TRUE(gradcheck([&](const auto& t) { return evonorm(t[0], t[1], t[2], {}, {}, o); }, inputs));
  });
}

TEST_P(EvoNormTest, ConstantChannelsStayFinite) {
  const EvoShape s{2, 4, 4, 6, 3};
  for_all_modes(s, [&](const EvoNormOptions& o) {
    for (const double value : {0.0, 0.1, 3.0, -20.0}) {
      EvoInputs in = evonorm_inputs(s, o, f32);
      const std::vector<float> constant(static_cast<std::size_t>(in.x.numel()), static_cast<float>(value));
      in.x = Tensor::from_values(in.x.shape(), constant);
      const EvoOutputs out = run_evonorm(in, o, f32, device());
      const EvoOutputs expected = run_evonorm(in, o, f64, cpu);
      EXPECT_TRUE(close_to_scale(out.y, expected.y, 1e-5)) << value;
      EXPECT_TRUE(close_to_scale(out.dx, expected.dx, 1e-4)) << value;
      for (const Tensor& tensor : {out.y, out.dx, out.dgamma, out.dbeta})
        for (const double element : tensor.to_vector()) EXPECT_TRUE(std::isfinite(element));
    }
  });
}

// A variance as E[x^2] - E[x]^2 in f32 would have no right digit here.
TEST_P(EvoNormTest, SurvivesALargeOffset) {
  for (const EvoShape& s : {EvoShape{3, 8, 8, 16, 4}, EvoShape{2, 28, 28, 64, 4}})
    for_all_modes(s, [&](const EvoNormOptions& o) {
      const EvoInputs in = evonorm_inputs(s, o, f32, 5, 1e4 - 1e-2, 1e4 + 1e-2);
      const EvoOutputs expected = run_evonorm(in, o, f64, cpu);
      const EvoOutputs out = run_evonorm(in, o, f32, device());
      expect_close_outputs(out, expected, 2e-4, 2e-4);
    });
}

TEST_P(EvoNormTest, HalfPrecisionInputsAbove256) {
  const EvoShape s{2, 9, 9, 16, 4};
  for_all_modes(s, [&](const EvoNormOptions& o) {
    const EvoInputs in = evonorm_inputs(s, o, f16, 5, -2000, 3000);
    expect_close_outputs(run_evonorm(in, o, f16, device()), run_evonorm(in, o, f64, cpu), 1e-3, 1e-3);
  });
}

TEST_P(EvoNormTest, HugeAndTinyInputsGiveNoNaN) {
  const EvoShape s{2, 5, 5, 8, 2};
  for_all_modes(s, [&](const EvoNormOptions& o) {
    for (const double size : {1e-30, 1e-12, 1e12, 1e18}) {
      const EvoInputs in = evonorm_inputs(s, o, f32, 5, -size, size);
      const EvoOutputs out = run_evonorm(in, o, f32, device());
      for (const Tensor& tensor : {out.y, out.dx, out.dgamma, out.dbeta})
        for (const double element : tensor.to_vector()) ASSERT_FALSE(std::isnan(element)) << size;
    }
  });
}

TEST_P(EvoNormTest, NaNComesThrough) {
  const EvoShape s{2, 3, 3, 4, 2};
  for_all_modes(s, [&](const EvoNormOptions& o) {
    EvoInputs in = evonorm_inputs(s, o, f32);
    const std::int64_t at = s.index(o.layout, 1, 4, 2);
    in.x.data<float>()[at] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<double> y = run_evonorm(in, o, f32, device()).y.to_vector();
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t p = 0; p < s.h * s.w; ++p)
        for (std::int64_t c = 0; c < s.c; ++c) {
          const bool same_slice = has_batch_term(o.variant) ? c == 2 && (n == 1 || o.training) : n == 1 && c / 2 == 1;
          EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(s.index(o.layout, n, p, c))]), same_slice);
        }
  });
}

// With x = 0 and v = 1 the two terms of B0's max are equal if a sample's variance is that of the batch.
TEST_P(EvoNormTest, TiesGoToTheBatchTerm) {
  for (const Layout layout : both_layouts) {
    const EvoShape s{2, 1, 3, 1, 1};
    EvoNormOptions o{.variant = EvoNorm::B0, .layout = layout};
    EvoInputs in = evonorm_inputs(s, o, f64);
    in.x = Tensor::from(s.shape(layout), {-1, 0, 1, -1, 0, 1}, {.dtype = f64});
    in.gamma = Tensor::from({1}, {1}, {.dtype = f64});
    in.v = Tensor::from({1}, {1}, {.dtype = f64});
    in.upstream = Tensor::from(s.shape(layout), {0, 1, 0, 0, 1, 0}, {.dtype = f64});
    // Only the tied elements have an upstream gradient, and x = 0 there: y = x / b, so dx = 1 / b and dv = 0.
    const EvoOutputs out = run_evonorm(in, o, f64, device());
    const double slope = 1 / std::sqrt(2.0 / 3 + o.eps);
    EXPECT_TRUE(close(out.dx, {0, slope, 0, 0, slope, 0}, 1e-12, 1e-12));
    EXPECT_TRUE(close(out.dv, {0.0}, 0, 0));
  }
  // Batch of one: both terms are sqrt(var + eps) for v = 0. With x = +-1 the batch branch makes dv 0.
  EvoNormOptions o{.variant = EvoNorm::B0};
  EvoInputs in = evonorm_inputs({1, 1, 2, 1, 1}, o, f64);
  in.x = Tensor::from({1, 1, 2, 1}, {-1, 1}, {.dtype = f64});
  in.v = Tensor::from({1}, {0}, {.dtype = f64});
  EXPECT_TRUE(close(run_evonorm(in, o, f64, device()).dv, {0.0}, 0, 0));
}

TEST_P(EvoNormTest, RunningVarianceAfterSeveralSteps) {
  const EvoShape s{3, 4, 5, 6, 1};
  for (const EvoNorm variant : {EvoNorm::B0, EvoNorm::B1, EvoNorm::B2})
    for (const Dtype dtype : {f32, bf16}) {
      EvoNormOptions o{.variant = variant, .momentum = 0.3};
      const Tensor running = Tensor::from({6}, {1, 1, 1, 1, 1, 1}).to(device()).clone();
      std::vector<double> expected(6, 1.0);
      for (std::uint64_t step = 0; step < 5; ++step) {
        const EvoInputs in = evonorm_inputs(s, o, dtype, 10 + step);
        const std::vector<double> variance = evonorm_reference(s, in.values(), o).batch_variance;
        for (std::size_t c = 0; c < 6; ++c) expected[c] = 0.7 * expected[c] + 0.3 * variance[c];
        const std::uint64_t version = running.version();
        evonorm(in.x.to(device()), in.gamma.to(device()), in.beta.to(device()),
                in.v.defined() ? in.v.to(device()) : Tensor(), running, o);
        EXPECT_GT(running.version(), version);
      }
      EXPECT_TRUE(close(running, expected, 1e-5, 0));
      // Evaluation leaves it alone.
      o.training = false;
      const Tensor before = running.clone();
      const EvoInputs in = evonorm_inputs(s, o, dtype, 20);
      evonorm(in.x.to(device()), in.gamma.to(device()), in.beta.to(device()),
              in.v.defined() ? in.v.to(device()) : Tensor(), running, o);
      EXPECT_TRUE(bit_equal(before, running));
    }
}

TEST_P(EvoNormTest, TwoRunsGiveTheSameBits) {
  for (const EvoShape& s : {EvoShape{4, 28, 28, 64, 8}, EvoShape{3, 7, 5, 30, 3}})
    for_all_modes(s, [&](const EvoNormOptions& o) {
      const EvoInputs in = evonorm_inputs(s, o, f32);
      const EvoOutputs a = run_evonorm(in, o, f32, device()), b = run_evonorm(in, o, f32, device());
      EXPECT_TRUE(bit_equal(a.y, b.y) && bit_equal(a.dx, b.dx) && bit_equal(a.dgamma, b.dgamma) &&
                  bit_equal(a.dbeta, b.dbeta));
      EXPECT_TRUE(!a.dv.defined() || bit_equal(a.dv, b.dv));
    });
}

TEST(EvoNorm, ThreadCountDoesNotChangeTheBits) {
  const int threads = num_threads();
  for_all_modes({5, 9, 9, 24, 6}, [&](const EvoNormOptions& o) {
    const EvoInputs in = evonorm_inputs({5, 9, 9, 24, 6}, o, f32);
    set_num_threads(1);
    const EvoOutputs a = run_evonorm(in, o, f32, cpu);
    set_num_threads(4);
    const EvoOutputs b = run_evonorm(in, o, f32, cpu);
    EXPECT_TRUE(bit_equal(a.y, b.y) && bit_equal(a.dx, b.dx) && bit_equal(a.dgamma, b.dgamma));
  });
  set_num_threads(threads);
}

// Views may begin anywhere: kernels that load 16 bytes at once must notice.
TEST_P(EvoNormTest, UnalignedViews) {
  for_all_modes({2, 4, 4, 16, 4}, [&](const EvoNormOptions& o) {
    for (const Dtype dtype : {f32, bf16}) {
      const EvoShape s{2, 4, 4, 16, 4};
      const EvoInputs in = evonorm_inputs(s, o, dtype);
      const std::int64_t count = in.x.numel();
      const Tensor longer = Tensor::zeros({count + 1}, {.dtype = dtype, .device = device()});
      const Tensor x = longer.view(in.x.shape(), 1);
      x.copy_from(in.x);
      const auto on_device = [&](const Tensor& t) { return t.defined() ? t.to(device()).clone() : Tensor(); };
      const auto call = [&](const Tensor& input) {
        return evonorm(input, on_device(in.gamma), on_device(in.beta), on_device(in.v), on_device(in.running_var), o);
      };
      EXPECT_TRUE(close(call(x), call(in.x.to(device())), 1e-6, 1e-6));
      x.set_requires_grad();
      call(x).backward(in.upstream.to(device()));
      EXPECT_TRUE(close_to_scale(x.grad(), run_evonorm(in, o, f64, cpu).dx, dtype == f32 ? 1e-5 : 4e-3));
    }
  });
}

TEST_P(EvoNormTest, KeepsOnlySmallStatistics) {
  const EvoShape s{2, 32, 32, 64, 8};
  for (const EvoNorm variant : all_variants) {
    const EvoNormOptions o{.variant = variant, .groups = 8};
    const EvoInputs in = evonorm_inputs(s, o, f32);
    const auto leaf = [&](const Tensor& t) {
      return t.defined() ? Tensor(t.to(device()).clone()).set_requires_grad() : Tensor();
    };
    const Tensor x = leaf(in.x), gamma = leaf(in.gamma), beta = leaf(in.beta), v = leaf(in.v);
    const Tensor upstream = in.upstream.to(device());
    const auto picture = static_cast<std::size_t>(x.bytes());
    release_cached_memory(device());  // a cached buffer may be a quarter larger than what is asked for
    const std::size_t before = memory_stats(device()).live;
    const Tensor y = evonorm(x, gamma, beta, v, {}, o);
    const std::size_t kept = memory_stats(device()).live - before - picture;
    EXPECT_LT(kept, picture / 8) << variant;
    reset_peak_memory(device());
    y.backward(upstream);
    EXPECT_LT(memory_stats(device()).peak, before + 2 * picture + picture / 4) << variant;
  }
}

TEST_P(EvoNormTest, EmptyBatch) {
  for_all_modes({0, 4, 4, 6, 3}, [&](const EvoNormOptions& o) {
    const EvoInputs in = evonorm_inputs({0, 4, 4, 6, 3}, o, f32);
    const EvoOutputs out = run_evonorm(in, o, f32, device());
    EXPECT_EQ(out.y.numel(), 0);
    EXPECT_TRUE(close(out.dgamma, std::vector<double>(6), 0, 0));
    EXPECT_TRUE(!out.running_var.defined() || bit_equal(out.running_var, in.running_var));
  });
}

TEST_P(EvoNormTest, GradientsOnlyWhereWanted) {
  const EvoShape s{2, 3, 3, 4, 2};
  for_all_modes(s, [&](const EvoNormOptions& o) {
    const EvoInputs in = evonorm_inputs(s, o, f32);
    const auto on_device = [&](const Tensor& t) { return t.defined() ? t.to(device()).clone() : Tensor(); };
    const Tensor gamma = Tensor(on_device(in.gamma)).set_requires_grad();
    evonorm(on_device(in.x), gamma, on_device(in.beta), on_device(in.v), on_device(in.running_var), o)
        .backward(on_device(in.upstream));
    EXPECT_TRUE(bit_equal(gamma.grad(), run_evonorm(in, o, f32, device()).dgamma));
  });
}

TEST_P(EvoNormTest, GroupsByCountOrBySize) {
  const EvoShape s{2, 3, 5, 12, 4};
  for (const EvoNorm variant : {EvoNorm::S0, EvoNorm::S1, EvoNorm::S2})
    for (const Layout layout : both_layouts) {
      const EvoNormOptions count{.variant = variant, .groups = 4, .layout = layout};
      const EvoNormOptions size{.variant = variant, .groups = 5, .group_size = 3, .layout = layout};
      const EvoInputs in = evonorm_inputs(s, count, f32);
      const EvoOutputs a = run_evonorm(in, count, f32, device()), b = run_evonorm(in, size, f32, device());
      EXPECT_TRUE(bit_equal(a.y, b.y) && bit_equal(a.dx, b.dx) && bit_equal(a.dgamma, b.dgamma));
    }
}

TEST(EvoNorm, WrongUseNamesTheShapes) {
  const EvoNormOptions o{.groups = 4};
  const Tensor x = Tensor::zeros({2, 3, 3, 6}), p = Tensor::zeros({6}), q = Tensor::zeros({5});
  const Tensor d = Tensor::zeros({6}, {.dtype = f64});
  const EvoNormOptions b0{.variant = EvoNorm::B0}, eval{.variant = EvoNorm::B0, .training = false};
  const EvoNormOptions s1{.variant = EvoNorm::S1, .groups = 3};
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, p, p, {}, o); }, {"evonorm", "4 groups", "6 channels", "[2, 3, 3, 6]"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, p, p, {}, {.groups = 0}); }, {"0 groups"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, p, p, {}, {.group_size = 4}); }, {"groups of 4", "6 channels"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, p, p, {}, {.group_size = -3}); }, {"groups of -3"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, q, p, p, {}, b0); }, {"gamma", "[5]", "[2, 3, 3, 6]"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, q, p, {}, b0); }, {"beta", "[5]"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, p, q, {}, b0); }, {"v ", "[5]"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, p, p, q, b0); }, {"running_var", "[5]"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, p, {}, {}, b0); }, {"v is undefined"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, p, p, {}, s1); }, {"S1", "no parameter v"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, p, {}, p, s1); }, {"S1", "no running variance"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, p, p, {}, eval); }, {"B0", "evaluation"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, d, p, p, {}, b0); }, {"gamma", "f32", "f64"}));
  EXPECT_TRUE(throws_error([&] { evonorm(Tensor::zeros({2, 6}), p, p, p, {}, b0); }, {"evonorm", "[2, 6]"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, p, p, {}, {.variant = EvoNorm::B0, .eps = -1}); }, {"eps", "-1"}));
  EXPECT_TRUE(throws_error([&] { evonorm(x, p, p, p, {}, {.variant = EvoNorm::B0, .momentum = 2}); }, {"momentum"}));
}

}  // namespace
}  // namespace bevel
