// The unary operators, each written once as a formula. Derivatives come from dual numbers; a formula whose dual number
// would have the wrong value at a kink, or lose accuracy, brings its own first `derivative`.
//
// A new operator is a functor here, with a line in one of the lists below, and its function in unary.h.
#pragma once

#include <bevel/core/hostdevice.h>
#include <bevel/ops/kernel/number.h>

#include <cstddef>
#include <type_traits>

namespace bevel::pointwise {

struct Exp {
  static constexpr const char* name = "exp";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return exp(x);
  }
};

struct Expm1 {
  static constexpr const char* name = "expm1";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return expm1(x);
  }
};

struct Log {
  static constexpr const char* name = "log";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return log(x);
  }
};

struct Log1p {
  static constexpr const char* name = "log1p";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return log1p(x);
  }
};

struct Sqrt {
  static constexpr const char* name = "sqrt";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return sqrt(x);
  }
};

struct Square {
  static constexpr const char* name = "square";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return x * x;
  }
};

struct Abs {
  static constexpr const char* name = "abs";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return abs(x);
  }
};

struct Reciprocal {
  static constexpr const char* name = "reciprocal";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return X(1) / x;
  }
};

struct Pow {
  static constexpr const char* name = "pow";
  double exponent;
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return pow(x, exponent);
  }
};

// The derivative is 1 at both bounds.
struct Clamp {
  static constexpr const char* name = "clamp";
  double low;
  double high;
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return select(x < X(low), X(low), select(x > X(high), X(high), x));
  }
};

struct Relu {
  static constexpr const char* name = "relu";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return select(x <= X(0), X(0), x);  // NaN stays
  }
};

struct LeakyRelu {
  static constexpr const char* name = "leaky_relu";
  double slope;
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return select(x > X(0), x, X(slope) * x);
  }
};

struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return sigmoid(x);
  }
};

struct Silu {
  static constexpr const char* name = "silu";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return x * sigmoid(x);
  }
};

struct Tanh {
  static constexpr const char* name = "tanh";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return tanh(x);
  }
};

// x Phi(x), with the normal distribution Phi by erf (Hendrycks and Gimpel 2016), not the approximation by tanh.
struct Gelu {
  static constexpr const char* name = "gelu";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return X(0.5) * x * (X(1) + erf(x * X(0.70710678118654752)));
  }
};

// log(1 + e^x).
struct Softplus {
  static constexpr const char* name = "softplus";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return select(x > X(0), x, X(0)) + log1p(exp(-abs(x)));
  }
  template <class X>
  BEVEL_HD X derivative(X x) const {
    return sigmoid(x);
  }
};

struct Sin {
  static constexpr const char* name = "sin";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return sin(x);
  }
};

struct Cos {
  static constexpr const char* name = "cos";
  template <class X>
  BEVEL_HD X operator()(X x) const {
    return cos(x);
  }
};

// The lists, by what they need to compile; each is instantiated in a source file of its own.
template <class... F>
struct Operators {
  static constexpr std::size_t count = sizeof...(F);
  // The place of G in the list; `count` if it is not there.
  template <class G>
  static constexpr std::size_t index = [] {
    constexpr bool is_here[] = {std::is_same_v<F, G>...};
    std::size_t i = 0;
    while (i < count && !is_here[i]) ++i;
    return i;
  }();
};

using Algebraic = Operators<Sqrt, Square, Abs, Reciprocal, Clamp, Relu, LeakyRelu>;
using Exponential = Operators<Exp, Expm1, Log, Log1p, Sigmoid, Softplus>;
using Smooth = Operators<Silu, Tanh, Gelu>;
using Periodic = Operators<Sin, Cos, Pow>;

}  // namespace bevel::pointwise
