// The two formulas of EvoNorm and their derivatives, element by element, for both devices.
//
// The members of a formula are its coefficients, in the order in which the kernels' tables hold them. They are
// explained in problem.h and derived in docs/evonorm.md. Where a large offset may be common to all x, differences are
// taken so that they are exact: x - pivot, with a pivot that lies among the x; and i comes in two parts, high and low,
// since B2 takes i - x.
#pragma once

#include <bevel/core/hostdevice.h>
#include <bevel/ops/kernel/math.h>

namespace bevel::evo {

// 1 / x. On the device, in float, by one instruction that may be off by a unit in the last place and takes what is
// below 1e-38 for 0; without .ftz it would be several.
template <class A>
BEVEL_HD A reciprocal(A x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(A) == 4) {
    A result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
  }
#endif
  return A(1) / x;
}

// 1 / (1 + exp(-x)). On the device by the fast exponential: relative error below 1e-6 for |x| < 8.
template <class A>
BEVEL_HD A gate_sigmoid(A x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(A) == 4) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.44269504f));
    return reciprocal(1.0f + power);
  }
#endif
  return math::sigmoid(x);
}

template <class A>
struct GateForward {
  static constexpr int coefficients = 3;
  A v, scale, beta;
  BEVEL_HD A operator()(A x) const { return x * gate_sigmoid(v * x) * scale + beta; }
};

template <class A>
struct GateReduce {
  static constexpr int coefficients = 1;
  static constexpr int sums = 3;
  A v;
  // dy x q, dy, dy x^2 q (1 - q).
  BEVEL_HD void operator()(A x, A dy, A (&term)[sums]) const {
    const A q = gate_sigmoid(v * x);
    term[0] = dy * (x * q);
    term[1] = dy;
    term[2] = term[0] * (x * (A(1) - q));
  }
  BEVEL_HD void add(A x, A dy, A (&sum)[sums]) const {
    A term[sums];
    (*this)(x, dy, term);
    for (int k = 0; k < sums; ++k) sum[k] += term[k];
  }
};

template <class A>
struct GateBackward {
  static constexpr int coefficients = 5;
  A v, scale;
  A pivot, slope, offset;  // of the gradient through the statistics, a linear function of x
  BEVEL_HD A operator()(A x, A dy) const {
    const A z = v * x;
    const A q = gate_sigmoid(z);
    return dy * scale * (q * (A(1) + z * (A(1) - q))) + ((x - pivot) * slope + offset);
  }
};

// max(b, instance). The batch term wins ties. A NaN in x comes through; one in b has been put into i as well.
template <class A>
struct Denominator {
  A value;
  bool batch;
  BEVEL_HD Denominator(A b, A instance) : value(b >= instance ? b : instance), batch(b >= instance) {}
};

template <class A>
struct MaximumForward {
  static constexpr int coefficients = 6;
  A a, i, i_low, b, gamma, beta;
  BEVEL_HD A operator()(A x) const { return x * reciprocal(Denominator<A>(b, a * x + i + i_low).value) * gamma + beta; }
};

template <class A>
struct MaximumReduce {
  static constexpr int coefficients = 4;
  static constexpr int sums = 5;
  A a, i, i_low, b;
  // dy x / m, dy, w where the batch term wins, w and w x where the instance term does; w = dy x / m^2.
  BEVEL_HD void operator()(A x, A dy, A (&term)[sums]) const {
    const Denominator<A> m(b, a * x + i + i_low);
    const A r = reciprocal(m.value);
    const A w = dy * (x * r) * r;
    term[0] = dy * (x * r);
    term[1] = dy;
    term[2] = m.batch ? w : A(0);
    term[3] = m.batch ? A(0) : w;
    term[4] = m.batch ? A(0) : w * x;
  }
  // Adds the terms to `sum`; by branches, which a GPU turns into predicates.
  BEVEL_HD void add(A x, A dy, A (&sum)[sums]) const {
    const Denominator<A> m(b, a * x + i + i_low);
    const A r = reciprocal(m.value);
    const A k = dy * (x * r);
    const A w = k * r;
    sum[0] += k;
    sum[1] += dy;
    if (m.batch) {
      sum[2] += w;
    } else {
      sum[3] += w;
      sum[4] += w * x;
    }
  }
};

template <class A>
struct MaximumBackward {
  static constexpr int coefficients = 8;
  A a, i, i_low, b, gamma;
  A pivot, slope, offset;
  BEVEL_HD A operator()(A x, A dy) const {
    const Denominator<A> m(b, a * x + i + i_low);
    const A r = reciprocal(m.value);
    const A k = dy * r;
    const A direct = m.batch ? A(0) : a * (x * r) * k;
    return gamma * (k - direct) + ((x - pivot) * slope + offset);
  }
};

}  // namespace bevel::evo
