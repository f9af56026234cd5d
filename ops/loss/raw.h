// Kernel-level losses (bevel/ops/raw.h): one pass over plain arrays with the formula of any loss of the library.
//
//   bevel::raw::LossPass pass;                       // mean of smooth L1 over n floats, and its gradient, in one pass
//   pass.count = n;
//   pass.input = input;
//   pass.target = target;
//   pass.factor = 1.0 / n;
//   pass.value = loss;
//   pass.d_input = gradient;
//   bevel::raw::loss(bevel::Cpu{}, bevel::formula::SmoothL1{1.0}, pass);
//   bevel::raw::loss(bevel::raw::OnStream{stream, workspace, bevel::raw::loss_workspace_bytes}, ...);
//
// A formula is any struct of bevel::formula; what it computes and its contract at NaN, infinities and kinks stands in
// the header of its loss. With nvcc, raw.cuh runs formulas of one's own, and needs headers alone.
#pragma once

#include <bevel/core/device.h>
#include <bevel/ops/loss/detail/library_formula.h>
#include <bevel/ops/loss/pass.h>
#include <bevel/ops/raw.h>

namespace bevel::raw {

// Shapes are the caller's business: a pass knows a count. Reduced sums are in f64 beyond a few elements, in an order
// that the count and the device alone decide. A count of 0 leaves value and gradients unwritten.
//
// On a stream: the workspace is loss_workspace_bytes of zeros at its first use (each pass leaves it so that the next
// can use it), and may be left out where nothing is reduced. Error: a dtype that is not floating; a workspace too
// small; in a build without CUDA, any call on a stream.
template <class F>
void loss(Cpu backend, const F& formula, const LossPass& pass) {
  detail::LibraryFormula<F>::run(backend, formula, pass);
}
template <class F>
void loss(const OnStream& where, const F& formula, const LossPass& pass) {
  detail::LibraryFormula<F>::run(where, formula, pass);
}

// For a gradient that a pass computed together with the value, before the upstream gradient was known.
void scale_gradient(Cpu, const GradientScale& scale);
void scale_gradient(const OnStream& where, const GradientScale& scale);

}  // namespace bevel::raw
