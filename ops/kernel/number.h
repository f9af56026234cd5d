// Number: the plain number type with which formulas are evaluated, on both devices.
//
// Formulas never see a raw float: there an unqualified sqrt or abs could be the wrong function. Number offers the
// arithmetic, the comparisons and the functions below; Dual (dual.h) offers the same with derivatives. On the device no
// product is contracted with a sum, so that a formula gives the same bits in whatever kernel it is evaluated.
#pragma once

#include <bevel/core/hostdevice.h>
#include <bevel/ops/kernel/math.h>

#include <type_traits>

namespace bevel {

template <class T>
struct Number {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "formulas compute in float or double");

  T value;

  Number() = default;
  BEVEL_HD constexpr Number(T v) : value(v) {}
  template <class U>
    requires(std::is_arithmetic_v<U> && !std::is_same_v<U, T>)
  BEVEL_HD constexpr Number(U v) : value(static_cast<T>(v)) {}

  BEVEL_HD friend Number operator+(Number a, Number b) { return math::add(a.value, b.value); }
  BEVEL_HD friend Number operator-(Number a, Number b) { return math::subtract(a.value, b.value); }
  BEVEL_HD friend Number operator*(Number a, Number b) { return math::multiply(a.value, b.value); }
  BEVEL_HD friend Number operator/(Number a, Number b) { return math::divide(a.value, b.value); }
  BEVEL_HD friend Number operator-(Number a) { return -a.value; }

  BEVEL_HD friend bool operator<(Number a, Number b) { return a.value < b.value; }
  BEVEL_HD friend bool operator>(Number a, Number b) { return a.value > b.value; }
  BEVEL_HD friend bool operator<=(Number a, Number b) { return a.value <= b.value; }
  BEVEL_HD friend bool operator>=(Number a, Number b) { return a.value >= b.value; }
  BEVEL_HD friend bool operator==(Number a, Number b) { return a.value == b.value; }

  BEVEL_HD friend Number exp(Number x) { return math::exp(x.value); }
  BEVEL_HD friend Number expm1(Number x) { return math::expm1(x.value); }
  BEVEL_HD friend Number log(Number x) { return math::log(x.value); }
  BEVEL_HD friend Number log1p(Number x) { return math::log1p(x.value); }
  // log((1 + s) / (1 - s)) for |s| <= 1/3.
  BEVEL_HD friend Number log_of_ratio(Number s) { return math::log_of_ratio(s.value); }
  BEVEL_HD friend Number sqrt(Number x) { return math::sqrt(x.value); }
  BEVEL_HD friend Number abs(Number x) { return math::abs(x.value); }
  BEVEL_HD friend Number sin(Number x) { return math::sin(x.value); }
  BEVEL_HD friend Number cos(Number x) { return math::cos(x.value); }
  BEVEL_HD friend Number atan(Number x) { return math::atan(x.value); }
  // atan for |x| <= 1, cheaper.
  BEVEL_HD friend Number atan_of_fraction(Number x) { return math::atan_of_fraction(x.value); }
  BEVEL_HD friend Number tanh(Number x) { return math::tanh(x.value); }
  BEVEL_HD friend Number erf(Number x) { return math::erf(x.value); }
  // 1 / (1 + exp(-x)), without overflow.
  BEVEL_HD friend Number sigmoid(Number x) { return math::sigmoid(x.value); }
  BEVEL_HD friend Number pow(Number x, T exponent) { return math::pow(x.value, exponent); }
  // NaN in either argument gives NaN.
  BEVEL_HD friend Number max(Number a, Number b) { return math::max(a.value, b.value); }
  BEVEL_HD friend Number min(Number a, Number b) { return math::min(a.value, b.value); }
  // a b + c, on the device with one rounding.
  BEVEL_HD friend Number multiply_add(Number a, Number b, Number c) {
    return math::multiply_add(a.value, b.value, c.value);
  }
  // 1 where x > 0, else 0.
  BEVEL_HD friend Number is_positive(Number x) { return math::is_positive(x.value); }
  // 0, 1/2, 1 where x is below, at, above 0.
  BEVEL_HD friend Number unit_step(Number x) { return math::unit_step(x.value); }
  // 1 / x, and a / b by way of it, within a unit in the last place: cheaper on the device (math.h has the details).
  BEVEL_HD friend Number reciprocal(Number x) { return math::reciprocal(x.value); }
  BEVEL_HD friend Number quotient(Number a, Number b, Number reciprocal_of_b) {
    return math::quotient(a.value, b.value, reciprocal_of_b.value);
  }
  // condition ? a : b, both evaluated: vectorises where a branch would not.
  BEVEL_HD friend Number select(bool condition, Number a, Number b) { return condition ? a.value : b.value; }

  // The plain value under all derivatives; a formula may branch on it.
  BEVEL_HD friend T value_of(Number x) { return x.value; }
};

}  // namespace bevel
