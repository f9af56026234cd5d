// Kernel-level losses from headers alone: compiled by nvcc where this is included, without linking the library.
//
//   bevel::raw::launch_loss(bevel::raw::OnStream{stream, workspace, bytes}, bevel::formula::SmoothL1{1.0}, pass);
//
// The functions are those of raw.h, on streams only, for formulas of the library (smooth_l1_formula.h needs no tensor)
// and of one's own (pointwise_loss.h says what a formula is). Needs C++20 and nvcc's --expt-relaxed-constexpr; the
// folder that has this header's `bevel` goes on the include path.
#pragma once

#include <bevel/ops/loss/detail/row_kernels.cuh>
#include <bevel/ops/loss/detail/scale_kernel.cuh>

namespace bevel::raw {

template <class F, detail::Compiler compiler = detail::this_compiler>
void launch_loss(const OnStream& where, const F& formula, const LossPass& pass) {
  if (pass.count > 0) detail::launch_loss<compiler>(where, formula, pass);
}

inline void launch_scale_gradient(const OnStream& where, const GradientScale& scale) {
  detail::launch_scale(where, scale);
}

}  // namespace bevel::raw
