// A loss of one's own, from its formula.
//
// A formula is a functor of one error (input - target), or of input and target, templated on its number type:
//
//   struct Charbonnier {
//     float eps;
//     template <class X>
//     BEVEL_HD X operator()(X error) const { return sqrt(error * error + eps * eps); }
//   };
//   Tensor loss = pointwise_loss(Charbonnier{1e-3f}, prediction, target);
//
// From it come the kernels of forward, backward and fused forward-with-gradient, and second derivatives, for f32, f64,
// bf16 and f16. X offers + - * /, comparisons and the functions in ops/kernel/number.h. A choice between two values is
// select(condition, a, b), where both must be safe to compute; a branch works, too, but keeps the CPU loop from being
// vectorised. Two members are optional:
//
//   template <class X> BEVEL_HD X derivative(X error) const      the derivative, where a better form of it is known
//                                            (X input, X target)  than the one by the rules; of input and target: with
//                                                                 respect to the input
//   template <class T> auto in() const                           the functor to use when computing in T, float or
//   double
//
// CPU kernels are compiled wherever pointwise_loss is called. For tensors on CUDA nvcc must compile that file (name it
// .cu); else the call is an Error that says so. The same formula may be used from both kinds of files in one program.
#pragma once

#include <bevel/ops/loss/detail/compiled.h>
#include <bevel/ops/loss/detail/driver.h>

namespace bevel {

// The formula over all elements of input and target; the contract is that of smooth_l1.h. Error messages call it by
// F::name (a string) where the formula has one.
template <class F, detail::Compiler compiler = detail::this_compiler>
  requires(detail::ErrorFormula<F> || detail::PairFormula<F>)
Tensor pointwise_loss(const F& formula, const Tensor& input, const Tensor& target, const LossOptions& options = {}) {
  const char* name = "pointwise_loss";
  if constexpr (requires { F::name; }) name = F::name;
  return detail::run_loss(name, std::make_shared<const detail::CompiledLoss<F, compiler>>(formula), input, target,
                          options);
}

// The same for a formula of rows: X operator()(const Row<X>& input, const Row<X>& target). The last axis of the tensors
// has four elements; `none` gives the shape before it, a mean divides by the rows, weights are one a row ([N] or [N, 1]
// against [N, 4]). An optional member gives value and derivatives together:
//   template <class X> BEVEL_HD RowLoss<X> with_d_input(const Row<X>& input, const Row<X>& target) const
// and serves for the target, too, where the formula says `static constexpr bool is_symmetric = true`.
template <class F, detail::Compiler compiler = detail::this_compiler>
  requires detail::RowFormula<F>
Tensor row_loss(const F& formula, const Tensor& input, const Tensor& target, const LossOptions& options = {}) {
  const char* name = "row_loss";
  if constexpr (requires { F::name; }) name = F::name;
  return detail::run_loss(name, std::make_shared<const detail::CompiledLoss<F, compiler>>(formula), input, target,
                          options);
}

}  // namespace bevel
