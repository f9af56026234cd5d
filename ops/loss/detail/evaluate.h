// A formula and its derivatives at one point.
#pragma once

#include <bevel/ops/kernel/dual.h>

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
concept HasErrorDerivative = requires(const F& f, Number<float> x) { f.derivative(x); };
template <class F>
concept HasPairDerivative = requires(const F& f, Number<float> x) { f.derivative(x, x); };

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

}  // namespace bevel::detail
