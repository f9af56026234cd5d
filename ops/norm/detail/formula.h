// The formulas of problem.h, element by element, for both devices. The members of a formula are its coefficients, in
// the order in which the kernels' tables hold them.
#pragma once

#include <bevel/ops/activation.h>
#include <bevel/ops/evonorm/detail/formula.h>

namespace bevel::norm {

// The activation of t, and the gradient that comes back through it.
template <Activation activation, class A>
BEVEL_HD A activate(A t) {
  if constexpr (activation == Activation::relu) return t < 0 ? A(0) : t;  // NaN stays
  if constexpr (activation == Activation::silu) return t * evo::gate_sigmoid(t);
  return t;
}
template <Activation activation, class A>
BEVEL_HD A activate_backward(A t, A dy) {
  if constexpr (activation == Activation::relu) return t > 0 ? dy : A(0);
  if constexpr (activation == Activation::silu) {
    const A q = evo::gate_sigmoid(t);
    return dy * (q + t * q * (A(1) - q));
  }
  return dy;
}

template <class A, Activation activation>
struct Forward {
  static constexpr int coefficients = 3;
  A a, pivot, b;
  BEVEL_HD A operator()(A x) const { return activate<activation>(a * (x - pivot) + b); }
};

template <class A, Activation activation>
struct Reduce {
  static constexpr int coefficients = 3;
  static constexpr int sums = 2;
  A a, pivot, b;
  // du, du (x - pivot).
  BEVEL_HD void operator()(A x, A dy, A (&term)[sums]) const {
    const A difference = x - pivot;
    term[0] = activate_backward<activation>(a * difference + b, dy);
    term[1] = term[0] * difference;
  }
  BEVEL_HD void add(A x, A dy, A (&sum)[sums]) const {
    A term[sums];
    (*this)(x, dy, term);
    sum[0] += term[0];
    sum[1] += term[1];
  }
};

template <class A, Activation activation>
struct Backward {
  static constexpr int coefficients = 5;
  A a, pivot, b, slope, offset;
  BEVEL_HD A operator()(A x, A dy) const {
    const A difference = x - pivot;
    return a * activate_backward<activation>(a * difference + b, dy) + (slope * difference + offset);
  }
};

// Calls f.operator()<activation>().
template <class F>
void visit_activation(Activation activation, const F& f) {
  if (activation == Activation::relu) return f.template operator()<Activation::relu>();
  if (activation == Activation::silu) return f.template operator()<Activation::silu>();
  f.template operator()<Activation::none>();
}

}  // namespace bevel::norm
