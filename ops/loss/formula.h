// What the formulas of the library share. They live in bevel::formula, so that a program's own formulas may have their
// names.
#pragma once

#include <bevel/ops/kernel/number.h>

#include <limits>

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

template <class X>
BEVEL_HD bool is_infinite(X x) {
  const auto v = value_of(abs(x));
  constexpr auto largest = std::numeric_limits<std::remove_cv_t<decltype(v)>>::max();
  return v > largest;
}

}  // namespace bevel::formula
