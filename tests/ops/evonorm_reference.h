// EvoNorm written plainly from its formulas, in double, and what the tests of it share.
#pragma once

#include <bevel/core/autograd.h>
#include <bevel/ops/evonorm/evonorm.h>

#include "testing.h"

#include <ostream>
#include <string>
#include <vector>

namespace bevel::testing {

// Sizes of a batch of pictures, in the order of NHWC, and its groups.
struct EvoShape {
  std::int64_t n, h, w, c, groups;

  Shape shape(Layout layout) const { return layout == Layout::nchw ? Shape{n, c, h, w} : Shape{n, h, w, c}; }
  std::int64_t index(Layout layout, std::int64_t sample, std::int64_t pixel, std::int64_t channel) const {
    return layout == Layout::nchw ? (sample * c + channel) * h * w + pixel : (sample * h * w + pixel) * c + channel;
  }
  friend std::ostream& operator<<(std::ostream& out, const EvoShape& s) {
    return out << s.n << "x" << s.h << "x" << s.w << "x" << s.c << " in " << s.groups << " groups";
  }
};

inline constexpr EvoNorm all_variants[] = {EvoNorm::B0, EvoNorm::B1, EvoNorm::B2,
                                           EvoNorm::S0, EvoNorm::S1, EvoNorm::S2};
inline constexpr Layout both_layouts[] = {Layout::nhwc, Layout::nchw};

struct EvoValues {
  std::vector<double> x, gamma, beta, v, running_var;
};

struct EvoReference {
  std::vector<double> y;
  std::vector<double> batch_variance;
  std::int64_t batch_wins = 0, instance_wins = 0;
};

namespace detail {
// Mean of f(x) over all (sample, pixel, channel) with the given bounds.
template <class F>
double mean_over(const EvoShape& s, Layout layout, const std::vector<double>& x, std::int64_t n0, std::int64_t n1,
                 std::int64_t c0, std::int64_t c1, const F& f) {
  long double sum = 0;
  for (std::int64_t n = n0; n < n1; ++n)
    for (std::int64_t p = 0; p < s.h * s.w; ++p)
      for (std::int64_t c = c0; c < c1; ++c) sum += f(x[static_cast<std::size_t>(s.index(layout, n, p, c))]);
  return static_cast<double>(sum / static_cast<long double>((n1 - n0) * s.h * s.w * (c1 - c0)));
}

inline double variance_over(const EvoShape& s, Layout layout, const std::vector<double>& x, std::int64_t n0,
                            std::int64_t n1, std::int64_t c0, std::int64_t c1) {
  const double mean = mean_over(s, layout, x, n0, n1, c0, c1, [](double value) { return value; });
  return mean_over(s, layout, x, n0, n1, c0, c1, [&](double value) { return (value - mean) * (value - mean); });
}

inline double mean_square_over(const EvoShape& s, Layout layout, const std::vector<double>& x, std::int64_t n0,
                               std::int64_t n1, std::int64_t c0, std::int64_t c1) {
  return mean_over(s, layout, x, n0, n1, c0, c1, [](double value) { return value * value; });
}

inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
}  // namespace detail

inline EvoReference evonorm_reference(const EvoShape& s, const EvoValues& in, const EvoNormOptions& o) {
  EvoReference result;
  result.y.resize(in.x.size());
  result.batch_variance.resize(static_cast<std::size_t>(s.c));
  for (std::int64_t c = 0; c < s.c; ++c)
    result.batch_variance[static_cast<std::size_t>(c)] = detail::variance_over(s, o.layout, in.x, 0, s.n, c, c + 1);
  const std::int64_t width = s.c / s.groups;
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t c = 0; c < s.c; ++c) {
      const auto channel = static_cast<std::size_t>(c);
      const std::int64_t g = c / width;
      const double batch_variance = o.training               ? result.batch_variance[channel]
                                    : in.running_var.empty() ? 0
                                                             : in.running_var[channel];
      const double batch = std::sqrt(batch_variance + o.eps);
      const double instance = std::sqrt(detail::variance_over(s, o.layout, in.x, n, n + 1, c, c + 1) + o.eps);
      const double square = std::sqrt(detail::mean_square_over(s, o.layout, in.x, n, n + 1, c, c + 1) + o.eps);
      const double group =
          std::sqrt(detail::variance_over(s, o.layout, in.x, n, n + 1, g * width, (g + 1) * width) + o.eps);
      const double group_square =
          std::sqrt(detail::mean_square_over(s, o.layout, in.x, n, n + 1, g * width, (g + 1) * width) + o.eps);
      for (std::int64_t p = 0; p < s.h * s.w; ++p) {
        const auto i = static_cast<std::size_t>(s.index(o.layout, n, p, c));
        const double x = in.x[i];
        double z = x, other = 0;
        switch (o.variant) {
          case EvoNorm::B0:
            other = in.v[channel] * x + instance;
            z = x / std::max(batch, other);
            break;
          case EvoNorm::B1:
            other = (x + 1) * square;
            z = x / std::max(batch, other);
            break;
          case EvoNorm::B2:
            other = square - x;
            z = x / std::max(batch, other);
            break;
          case EvoNorm::S0:
            z = x * detail::sigmoid(in.v[channel] * x) / group;
            break;
          case EvoNorm::S1:
            z = x * detail::sigmoid(x) / group;
            break;
          case EvoNorm::S2:
            z = x * detail::sigmoid(x) / group_square;
            break;
        }
        if (has_batch_term(o.variant)) ++(other > batch ? result.instance_wins : result.batch_wins);
        if (!o.nonlinearity) z = x;
        result.y[i] = z * in.gamma[channel] + in.beta[channel];
      }
    }
  return result;
}

// Inputs of one call, upstream gradient included, as host tensors; values that the dtype holds exactly.
struct EvoInputs {
  Tensor x, gamma, beta, v, running_var, upstream;

  EvoValues values() const {
    return {x.to_vector(), gamma.to_vector(), beta.to_vector(), v.defined() ? v.to_vector() : std::vector<double>{},
            running_var.defined() ? running_var.to_vector() : std::vector<double>{}};
  }
};

inline EvoInputs evonorm_inputs(const EvoShape& s, const EvoNormOptions& o, Dtype dtype, std::uint64_t seed = 1,
                                double low = -2, double high = 3) {
  const Dtype parameter = compute_dtype(dtype);
  EvoInputs in;
  in.x = random_tensor(s.shape(o.layout), {.dtype = dtype, .low = low, .high = high, .seed = seed});
  in.upstream = random_tensor(s.shape(o.layout), {.dtype = dtype, .seed = seed + 1});
  in.gamma = random_tensor({s.c}, {.dtype = parameter, .low = 0.5, .high = 1.5, .seed = seed + 2});
  in.beta = random_tensor({s.c}, {.dtype = parameter, .seed = seed + 3});
  if (has_v(o.variant)) in.v = random_tensor({s.c}, {.dtype = parameter, .low = 0.3, .high = 1.3, .seed = seed + 4});
  if (has_batch_term(o.variant))
    in.running_var = random_tensor({s.c}, {.dtype = parameter, .low = 0.5, .high = 2.5, .seed = seed + 5});
  return in;
}

struct EvoOutputs {
  Tensor y, dx, dgamma, dbeta, dv, running_var;
};

// Forward and backward on `device`, computed in `dtype` from the same values.
inline EvoOutputs run_evonorm(const EvoInputs& in, const EvoNormOptions& o, Dtype dtype, Device device) {
  const auto prepare = [&](const Tensor& tensor, Dtype to, bool leaf) {
    if (!tensor.defined()) return Tensor();
    Tensor converted = Tensor::empty(tensor.shape(), {.dtype = to});
    const std::vector<double> values = tensor.to_vector();
    visit_floating(to, "run_evonorm", [&]<class T>() {
      for (std::size_t i = 0; i < values.size(); ++i)
        converted.data<T>()[i] = static_cast<T>(static_cast<compute_t<T>>(values[i]));
    });
    return Tensor(converted.to(device)).set_requires_grad(leaf);
  };
  const Dtype parameter = compute_dtype(dtype);
  const Tensor x = prepare(in.x, dtype, true), upstream = prepare(in.upstream, dtype, false);
  const Tensor gamma = prepare(in.gamma, parameter, true), beta = prepare(in.beta, parameter, true);
  const Tensor v = prepare(in.v, parameter, true), running_var = prepare(in.running_var, parameter, false);
  const Tensor y = evonorm(x, gamma, beta, v, running_var, o);
  y.backward(upstream);
  return {y.detach(), x.grad(), gamma.grad(), beta.grad(), v.defined() ? v.grad() : Tensor(), running_var};
}

// |a - b| <= tolerance * (|b| + largest |b|), for sums of many terms that may cancel.
inline ::testing::AssertionResult close_to_scale(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.defined() != b.defined()) return ::testing::AssertionFailure() << "one of the tensors is undefined";
  if (!a.defined()) return ::testing::AssertionSuccess();
  double largest = 0;
  for (const double value : b.to_vector())
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return close(a, b, tolerance, tolerance * largest);
}

inline void expect_close_outputs(const EvoOutputs& a, const EvoOutputs& b, double value_tolerance,
                                 double sum_tolerance) {
  EXPECT_TRUE(close_to_scale(a.y, b.y, value_tolerance)) << "output";
  EXPECT_TRUE(close_to_scale(a.dx, b.dx, value_tolerance)) << "gradient of x";
  EXPECT_TRUE(close_to_scale(a.dgamma, b.dgamma, sum_tolerance)) << "gradient of gamma";
  EXPECT_TRUE(close_to_scale(a.dbeta, b.dbeta, sum_tolerance)) << "gradient of beta";
  EXPECT_TRUE(close_to_scale(a.dv, b.dv, sum_tolerance)) << "gradient of v";
  EXPECT_TRUE(close_to_scale(a.running_var, b.running_var, sum_tolerance)) << "running variance";
}

}  // namespace bevel::testing
