// Kernels of create.h and inplace.h.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/kernel/math.h>
#include <bevel/ops/kernel/pack.h>

#include <cstdint>

namespace bevel::pointwise {

// Element i of n, in double: start + i * step, and `last` for the last one.
struct Ramp {
  double start;
  double step;
  double last;
  std::int64_t n;

  BEVEL_HD double operator()(std::int64_t i) const {
    return i == n - 1 ? last : math::add(start, math::multiply(static_cast<double>(i), step));
  }
};

template <class T>
struct Constant {
  T value;
  BEVEL_HD T operator()(std::int64_t) const { return value; }
};

// 1 where i is a multiple of the period.
struct Diagonal {
  std::int64_t period;
  BEVEL_HD float operator()(std::int64_t i) const { return i % period == 0 ? 1.0f : 0.0f; }
};

// a + alpha * b.
template <class T>
struct AddScaled {
  T alpha;
  BEVEL_HD T operator()(T a, T b) const { return math::add(a, math::multiply(alpha, b)); }
};

template <class Backend>
void ramp_kernel(Backend backend, const Ramp& ramp, const Tensor& out);
template <class Backend>
void fill_kernel(Backend backend, double value, const Tensor& out);
template <class Backend>
void eye_kernel(Backend backend, std::int64_t n, const Tensor& out);
template <class Backend>
void add_scaled_kernel(Backend backend, double alpha, const Tensor& t, const Tensor& other);

}  // namespace bevel::pointwise
