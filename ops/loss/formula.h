// What the formulas of the library share. They live in bevel::formula, so that a program's own formulas may have their
// names.
#pragma once

#include <bevel/ops/kernel/number.h>

#include <limits>
#include <type_traits>

namespace bevel::formula {

// -1, 0 or 1, and NaN for NaN; a constant to differentiation.
template <class X>
BEVEL_HD X sign(X x) {
  const auto v = value_of(x);
  return select(v > 0, X(1), select(v < 0, X(-1), X(v)));
}

// Whether X carries derivatives. An expression of abs(x) may be right but for its derivative at 0.
template <class X>
inline constexpr bool is_differentiated = requires(X x) { x.derivative; };

// Whether X is the plain float, for which polynomials may take the place of functions.
template <class X>
inline constexpr bool is_float = std::is_same_v<X, Number<float>>;

// first + x (second + x (...)).
template <class X, class... Rest>
BEVEL_HD X polynomial(X x, float first, Rest... rest) {
  if constexpr (sizeof...(rest) == 0)
    return first;
  else
    return multiply_add(polynomial(x, rest...), x, X(first));
}

// log(1 + x) for 0 <= x <= 1. In f32 by a polynomial that interpolates log1p(x) / x; its error is about 2 ulp.
template <class X>
BEVEL_HD X log1p_of_fraction(X x) {
  if constexpr (is_float<X>)
    return x * polynomial(x, 1.0f, -4.99998927e-1f, 3.33297104e-1f, -2.49516159e-1f, 1.96632743e-1f, -1.52696669e-1f,
                          1.05436236e-1f, -5.63736111e-2f, 1.95425265e-2f, -3.17605701e-3f);
  else
    return log_of_ratio(quotient(x, 2 + x, reciprocal(2 + x)));
}

template <class X>
BEVEL_HD bool is_infinite(X x) {
  const auto v = value_of(abs(x));
  constexpr auto largest = std::numeric_limits<std::remove_cv_t<decltype(v)>>::max();
  return v > largest;
}

}  // namespace bevel::formula
