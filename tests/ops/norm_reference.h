// Batch and group normalisation written plainly, in double, and what the tests of them share.
#pragma once

#include <bevel/ops/norm/norm.h>

#include "evonorm_reference.h"

#include <string>
#include <vector>

namespace bevel::testing {

struct NormMode {
  bool batch = true;
  bool training = true;
  Activation activation = Activation::none;
  Layout layout = Layout::nhwc;

  std::string text() const {
    constexpr const char* names[] = {"none", "relu", "silu"};
    return message(batch ? "batch, " : "group, ", training ? "" : "evaluation, ", names[static_cast<int>(activation)],
                   ", ", layout);
  }
};

// Calls f(mode) for every norm, mode, activation and layout.
template <class F>
void for_all_norm_modes(const F& f) {
  for (const Layout layout : both_layouts)
    for (const Activation activation : {Activation::none, Activation::relu, Activation::silu})
      for (const auto& [batch, training] : {std::pair{true, true}, {true, false}, {false, true}}) {
        const NormMode mode{batch, training, activation, layout};
        SCOPED_TRACE(mode.text());
        f(mode);
      }
}

// Tensors of one call, upstream gradient included; values that the dtype holds exactly.
struct NormInputs {
  Tensor x, weight, bias, mean, var, upstream;
};

inline NormInputs norm_inputs(const EvoShape& s, Layout layout, Dtype dtype, std::uint64_t seed = 1, double low = -2,
                              double high = 3) {
  const Dtype parameter = compute_dtype(dtype);
  const double centre = (low + high) / 2, half = (high - low) / 2;
  return {random_tensor(s.shape(layout), {.dtype = dtype, .low = low, .high = high, .seed = seed}),
          random_tensor({s.c}, {.dtype = parameter, .low = 0.5, .high = 1.5, .seed = seed + 1}),
          random_tensor({s.c}, {.dtype = parameter, .seed = seed + 2}),
          random_tensor({s.c}, {.dtype = parameter, .low = centre - half / 4, .high = centre, .seed = seed + 3}),
          random_tensor({s.c}, {.dtype = parameter, .low = half * half / 4, .high = half * half, .seed = seed + 4}),
          random_tensor(s.shape(layout), {.dtype = dtype, .seed = seed + 5})};
}

inline Tensor apply_norm(const NormMode& m, const EvoShape& s, const NormInputs& in, double eps = 1e-5) {
  if (!m.batch)
    return group_norm(in.x, in.weight, in.bias,
                      {.groups = s.groups, .eps = eps, .activation = m.activation, .layout = m.layout});
  return batch_norm(in.x, in.weight, in.bias, in.mean, in.var,
                    {.eps = eps, .training = m.training, .activation = m.activation, .layout = m.layout});
}

struct NormOutputs {
  Tensor y, dx, dweight, dbias, mean, var;
};

// The same values in `dtype` on `device`.
inline Tensor converted(const Tensor& tensor, Dtype dtype, Device device) {
  if (!tensor.defined()) return {};
  Tensor result = Tensor::empty(tensor.shape(), {.dtype = dtype});
  const std::vector<double> values = tensor.to_vector();
  visit_floating(dtype, "converted", [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i)
      result.data<T>()[i] = static_cast<T>(static_cast<compute_t<T>>(values[i]));
  });
  return result.to(device);
}

inline NormInputs converted(const NormInputs& in, Dtype dtype, Device device) {
  const Dtype parameter = compute_dtype(dtype);
  return {converted(in.x, dtype, device),        converted(in.weight, parameter, device),
          converted(in.bias, parameter, device), converted(in.mean, parameter, device),
          converted(in.var, parameter, device),  converted(in.upstream, dtype, device)};
}

// Forward and backward on `device`, computed in `dtype` from the same values.
inline NormOutputs run_norm(const NormMode& m, const EvoShape& s, const NormInputs& inputs, Dtype dtype, Device device,
                            double eps = 1e-5) {
  const NormInputs in = converted(inputs, dtype, device);
  for (const Tensor* leaf : {&in.x, &in.weight, &in.bias})
    if (leaf->defined()) leaf->set_requires_grad();
  const Tensor y = apply_norm(m, s, in, eps);
  y.backward(in.upstream);
  const auto gradient = [](const Tensor& leaf) { return leaf.defined() ? leaf.grad() : Tensor(); };
  return {y.detach(), gradient(in.x), gradient(in.weight), gradient(in.bias), in.mean, in.var};
}

struct NormReference {
  std::vector<double> y, mean, var;  // running statistics after the call, momentum 0.1
};

inline NormReference norm_reference(const NormMode& m, const EvoShape& s, const NormInputs& in, double eps = 1e-5) {
  const std::vector<double> x = in.x.to_vector(), weight = in.weight.to_vector(), bias = in.bias.to_vector();
  NormReference result{x, in.mean.to_vector(), in.var.to_vector()};
  const std::int64_t width = s.c / s.groups;
  const double count = static_cast<double>(s.n * s.h * s.w);
  for (std::int64_t c = 0; c < s.c; ++c) {
    const auto channel = static_cast<std::size_t>(c);
    const std::int64_t first = c / width * width;
    const double running_mean = result.mean[channel], running_var = result.var[channel];
    for (std::int64_t n = 0; n < s.n; ++n) {
      const std::int64_t n0 = m.batch ? 0 : n, n1 = m.batch ? s.n : n + 1;
      const std::int64_t c0 = m.batch ? c : first, c1 = m.batch ? c + 1 : first + width;
      double mean = detail::mean_over(s, m.layout, x, n0, n1, c0, c1, [](double value) { return value; });
      double var = detail::variance_over(s, m.layout, x, n0, n1, c0, c1);
      if (m.batch && m.training && n == 0) {
        result.mean[channel] = 0.9 * running_mean + 0.1 * mean;
        result.var[channel] = 0.9 * running_var + 0.1 * var * count / (count - 1);
      }
      if (m.batch && !m.training) mean = running_mean, var = running_var;
      for (std::int64_t p = 0; p < s.h * s.w; ++p) {
        const auto i = static_cast<std::size_t>(s.index(m.layout, n, p, c));
        const double u = (x[i] - mean) / std::sqrt(var + eps) * weight[channel] + bias[channel];
        result.y[i] = m.activation == Activation::none   ? u
                      : m.activation == Activation::relu ? std::max(u, 0.0)
                                                         : u * detail::sigmoid(u);
      }
    }
  }
  return result;
}

inline void expect_close_outputs(const NormOutputs& a, const NormOutputs& b, double value_tolerance,
                                 double sum_tolerance) {
  EXPECT_TRUE(close_to_scale(a.y, b.y, value_tolerance)) << "output";
  EXPECT_TRUE(close_to_scale(a.dx, b.dx, value_tolerance)) << "gradient of the input";
  EXPECT_TRUE(close_to_scale(a.dweight, b.dweight, sum_tolerance)) << "gradient of the weight";
  EXPECT_TRUE(close_to_scale(a.dbias, b.dbias, sum_tolerance)) << "gradient of the bias";
  EXPECT_TRUE(close_to_scale(a.mean, b.mean, sum_tolerance)) << "running mean";
  EXPECT_TRUE(close_to_scale(a.var, b.var, sum_tolerance)) << "running variance";
}

}  // namespace bevel::testing
