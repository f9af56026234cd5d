// A formula and its derivatives at one point.
#pragma once

#include <bevel/ops/kernel/dual.h>
#include <bevel/ops/loss/row.h>

namespace bevel::detail {

// The same template compiled by g++ in one file and by nvcc in another is not the same code. The compiler is therefore
// a template argument of whatever contains a formula, so that both may meet in one program.
enum class Compiler { host, nvcc };
#if defined(__CUDACC__)
inline constexpr Compiler this_compiler = Compiler::nvcc;
#else
inline constexpr Compiler this_compiler = Compiler::host;
#endif

// The functor with its parameters rounded to T, where the formula has such a form: formula.in<T>().
template <class T, class F>
auto formula_in(const F& formula) {
  if constexpr (requires { formula.template in<T>(); })
    return formula.template in<T>();
  else
    return formula;
}

template <class F>
concept ErrorFormula = requires(const F& f, Number<float> x) { formula_in<float>(f)(x); };
template <class F>
concept PairFormula = requires(const F& f, Number<float> x) { formula_in<float>(f)(x, x); };
template <class F>
concept RowFormula =
    !PairFormula<F> && !ErrorFormula<F> && requires(const F& f, Row<Number<float>> x) { formula_in<float>(f)(x, x); };
template <class F>
concept HasErrorDerivative = requires(const F& f, Number<float> x) { f.derivative(x); };
template <class F>
concept HasPairDerivative = requires(const F& f, Number<float> x) { f.derivative(x, x); };

template <class F>
concept HasRowDerivative = requires(const F& f, Row<Number<float>> x) { f.with_d_input(x, x); };
// Whether the loss stays the same when input and target change places.
template <class F>
concept SymmetricFormula = requires { requires F::is_symmetric; };

// Numbers of a row; 1 for formulas that are not of rows.
template <class F>
inline constexpr int row_width = PairFormula<F> || ErrorFormula<F> ? 1 : 4;

template <class X, class F>
BEVEL_HD X loss_value(const F& f, X input, X target) {
  if constexpr (ErrorFormula<F>)
    return f(input - target);
  else
    return f(input, target);
}

// Value and derivative with respect to the input; of an error formula the target's is the negative.
template <class X, class F>
BEVEL_HD Dual<X> loss_with_d_input(const F& f, X input, X target) {
  if constexpr (ErrorFormula<F>) {
    const X error = input - target;
    if constexpr (HasErrorDerivative<F>)
      return {f(error), f.derivative(error)};
    else
      return f(Dual<X>(error, X(1)));
  } else {
    if constexpr (HasPairDerivative<F>)
      return {f(input, target), f.derivative(input, target)};
    else
      return f(Dual<X>(input, X(1)), Dual<X>(target));
  }
}

template <class X, class F>
BEVEL_HD X loss_d_target(const F& f, X input, X target) {
  if constexpr (ErrorFormula<F>)
    return -loss_with_d_input(f, input, target).derivative;
  else
    return f(Dual<X>(input), Dual<X>(target, X(1))).derivative;
}

// The second pass at one point, along the direction (a, b).
template <class T>
struct SecondOrder {
  Number<T> slope;  // a f_x + b f_t
  Number<T> d_input;
  Number<T> d_target;
};

template <class T, class F>
BEVEL_HD SecondOrder<T> loss_second(const F& f, Number<T> input, Number<T> target, Number<T> a, Number<T> b) {
  using X = Dual<Number<T>>;
  const X d_input = loss_with_d_input(f, X(input, a), X(target, b)).derivative;
  const X d_target = loss_d_target(f, X(input, a), X(target, b));
  return {a * d_input.value + b * d_target.value, d_input.derivative, d_target.derivative};
}

// The row as dual numbers, the derivative of number `k` being 1.
template <class X>
BEVEL_HD Row<Dual<X>> seeded(const Row<X>& row, int k) {
  Row<Dual<X>> result;
  for (int i = 0; i < 4; ++i) result[i] = Dual<X>(row[i], X(i == k ? 1 : 0));
  return result;
}

template <class X, class F>
BEVEL_HD RowLoss<X> row_with_d_input(const F& f, const Row<X>& input, const Row<X>& target) {
  if constexpr (HasRowDerivative<F>) {
    return f.with_d_input(input, target);
  } else {
    RowLoss<X> result;
    for (int k = 0; k < 4; ++k) {
      const Dual<X> loss = f(seeded(input, k), seeded(target, -1));
      result.value = loss.value;
      result.d_input[k] = loss.derivative;
    }
    return result;
  }
}

template <class X, class F>
BEVEL_HD Row<X> row_d_target(const F& f, const Row<X>& input, const Row<X>& target) {
  if constexpr (HasRowDerivative<F> && SymmetricFormula<F>) {
    return f.with_d_input(target, input).d_input;
  } else {
    Row<X> result;
    for (int k = 0; k < 4; ++k) result[k] = f(seeded(input, -1), seeded(target, k)).derivative;
    return result;
  }
}

template <class T>
struct RowSecondOrder {
  Number<T> slope;
  Row<Number<T>> d_input;
  Row<Number<T>> d_target;
};

template <class T, class F>
BEVEL_HD RowSecondOrder<T> row_second(const F& f, const Row<Number<T>>& input, const Row<Number<T>>& target,
                                      const Row<Number<T>>& a, const Row<Number<T>>& b) {
  using X = Dual<Number<T>>;
  Row<X> x;
  Row<X> t;
  for (int k = 0; k < 4; ++k) {
    x[k] = X(input[k], a[k]);
    t[k] = X(target[k], b[k]);
  }
  const Row<X> d_input = row_with_d_input(f, x, t).d_input;
  const Row<X> d_target = row_d_target(f, x, t);
  RowSecondOrder<T> result;
  result.slope = 0;
  for (int k = 0; k < 4; ++k) {
    result.slope = result.slope + (a[k] * d_input[k].value + b[k] * d_target[k].value);
    result.d_input[k] = d_input[k].derivative;
    result.d_target[k] = d_target[k].derivative;
  }
  return result;
}

}  // namespace bevel::detail
