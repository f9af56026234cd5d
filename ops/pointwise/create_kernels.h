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

void ramp_kernel(Cpu, const Ramp& ramp, const Tensor& out);
void ramp_kernel(Cuda, const Ramp& ramp, const Tensor& out);
void fill_kernel(Cpu, double value, const Tensor& out);
void fill_kernel(Cuda, double value, const Tensor& out);
void eye_kernel(Cpu, std::int64_t n, const Tensor& out);
void eye_kernel(Cuda, std::int64_t n, const Tensor& out);
void add_scaled_kernel(Cpu, double alpha, const Tensor& t, const Tensor& other);
void add_scaled_kernel(Cuda, double alpha, const Tensor& t, const Tensor& other);

}  // namespace bevel::pointwise
