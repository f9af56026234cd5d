// Dual numbers: a value with its derivative, by which formulas written once are differentiated (forward mode).
//
// Dual<Number<T>> gives first derivatives, Dual<Dual<Number<T>>> second ones. Conventions at kinks: the derivative of
// abs is 0 at 0 and NaN at NaN, the first argument of max and min wins ties, sqrt has derivative infinity at 0.
#pragma once

#include <bevel/ops/kernel/number.h>

namespace bevel {

template <class X>
struct Dual {
  X value;
  X derivative;

  Dual() = default;
  BEVEL_HD constexpr Dual(X v, X d) : value(v), derivative(d) {}
  BEVEL_HD constexpr Dual(X v) : value(v), derivative(0) {}
  template <class U>
    requires std::is_arithmetic_v<U>
  BEVEL_HD constexpr Dual(U v) : value(v), derivative(0) {}

  BEVEL_HD friend Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.derivative + b.derivative}; }
  BEVEL_HD friend Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.derivative - b.derivative}; }
  BEVEL_HD friend Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, a.derivative * b.value + a.value * b.derivative};
  }
  BEVEL_HD friend Dual operator/(Dual a, Dual b) {
    const X quotient = a.value / b.value;
    return {quotient, (a.derivative - quotient * b.derivative) / b.value};
  }
  BEVEL_HD friend Dual operator-(Dual a) { return {-a.value, -a.derivative}; }

  // With a plain number there is no derivative to multiply by: less work, and no 0 · inf.
  template <class U>
    requires std::is_arithmetic_v<U>
  BEVEL_HD friend Dual operator+(Dual a, U b) {
    return {a.value + b, a.derivative};
  }
  template <class U>
    requires std::is_arithmetic_v<U>
  BEVEL_HD friend Dual operator+(U a, Dual b) {
    return {a + b.value, b.derivative};
  }
  template <class U>
    requires std::is_arithmetic_v<U>
  BEVEL_HD friend Dual operator-(Dual a, U b) {
    return {a.value - b, a.derivative};
  }
  template <class U>
    requires std::is_arithmetic_v<U>
  BEVEL_HD friend Dual operator-(U a, Dual b) {
    return {a - b.value, -b.derivative};
  }
  template <class U>
    requires std::is_arithmetic_v<U>
  BEVEL_HD friend Dual operator*(Dual a, U b) {
    return {a.value * b, a.derivative * b};
  }
  template <class U>
    requires std::is_arithmetic_v<U>
  BEVEL_HD friend Dual operator*(U a, Dual b) {
    return {a * b.value, a * b.derivative};
  }
  template <class U>
    requires std::is_arithmetic_v<U>
  BEVEL_HD friend Dual operator/(Dual a, U b) {
    return {a.value / b, a.derivative / b};
  }

  BEVEL_HD friend bool operator<(Dual a, Dual b) { return a.value < b.value; }
  BEVEL_HD friend bool operator>(Dual a, Dual b) { return a.value > b.value; }
  BEVEL_HD friend bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
  BEVEL_HD friend bool operator>=(Dual a, Dual b) { return a.value >= b.value; }
  BEVEL_HD friend bool operator==(Dual a, Dual b) { return a.value == b.value; }

  BEVEL_HD friend Dual exp(Dual x) {
    const X y = exp(x.value);
    return {y, x.derivative * y};
  }
  BEVEL_HD friend Dual expm1(Dual x) { return {expm1(x.value), x.derivative * exp(x.value)}; }
  BEVEL_HD friend Dual log(Dual x) { return {log(x.value), x.derivative / x.value}; }
  BEVEL_HD friend Dual log1p(Dual x) { return {log1p(x.value), x.derivative / (X(1) + x.value)}; }
  BEVEL_HD friend Dual log_of_ratio(Dual s) {
    return {log_of_ratio(s.value), (s.derivative + s.derivative) / (X(1) - s.value * s.value)};
  }
  BEVEL_HD friend Dual sqrt(Dual x) {
    const X y = sqrt(x.value);
    return {y, x.derivative / (y + y)};
  }
  BEVEL_HD friend Dual abs(Dual x) {
    const auto v = value_of(x);
    const X neither = select(v == 0, X(0), x.value);  // 0 at the kink, NaN for NaN
    return {abs(x.value), select(v > 0, x.derivative, select(v < 0, -x.derivative, neither))};
  }
  BEVEL_HD friend Dual sin(Dual x) { return {sin(x.value), x.derivative * cos(x.value)}; }
  BEVEL_HD friend Dual cos(Dual x) { return {cos(x.value), -(x.derivative * sin(x.value))}; }
  BEVEL_HD friend Dual atan(Dual x) { return {atan(x.value), x.derivative / (X(1) + x.value * x.value)}; }
  BEVEL_HD friend Dual atan_of_fraction(Dual x) {
    return {atan_of_fraction(x.value), x.derivative / (X(1) + x.value * x.value)};
  }
  BEVEL_HD friend Dual tanh(Dual x) {
    const X y = tanh(x.value);
    return {y, x.derivative * (X(1) - y * y)};
  }
  BEVEL_HD friend Dual erf(Dual x) {
    constexpr double two_over_root_pi = 1.1283791670955126;
    return {erf(x.value), x.derivative * (X(two_over_root_pi) * exp(-(x.value * x.value)))};
  }
  BEVEL_HD friend Dual sigmoid(Dual x) {
    const X y = sigmoid(x.value);
    return {y, x.derivative * (y * sigmoid(-x.value))};
  }
  template <class T>
  BEVEL_HD friend Dual pow(Dual x, T exponent) {
    if (exponent == 0) return {X(1), X(0)};
    return {pow(x.value, exponent), x.derivative * (X(exponent) * pow(x.value, exponent - 1))};
  }
  BEVEL_HD friend Dual max(Dual a, Dual b) { return select(a.value >= b.value || !(a.value == a.value), a, b); }
  BEVEL_HD friend Dual min(Dual a, Dual b) { return select(a.value <= b.value || !(a.value == a.value), a, b); }
  BEVEL_HD friend Dual multiply_add(Dual a, Dual b, Dual c) {
    return {multiply_add(a.value, b.value, c.value),
            multiply_add(a.derivative, b.value, multiply_add(a.value, b.derivative, c.derivative))};
  }
  BEVEL_HD friend Dual is_positive(Dual x) { return is_positive(x.value); }
  BEVEL_HD friend Dual unit_step(Dual x) { return unit_step(x.value); }
  BEVEL_HD friend Dual reciprocal(Dual x) {
    const X y = reciprocal(x.value);
    return {y, -(x.derivative * y * y)};
  }
  BEVEL_HD friend Dual quotient(Dual a, Dual b, Dual reciprocal_of_b) {
    const X q = quotient(a.value, b.value, reciprocal_of_b.value);
    return {q, (a.derivative - q * b.derivative) * reciprocal_of_b.value};
  }
  BEVEL_HD friend Dual select(bool condition, Dual a, Dual b) {
    return {select(condition, a.value, b.value), select(condition, a.derivative, b.derivative)};
  }

  BEVEL_HD friend auto value_of(Dual x) { return value_of(x.value); }
};

}  // namespace bevel
