// The CUDA kernels of the library's formulas, compiled by nvcc in the .cu files beside the losses.
#pragma once

#include <bevel/ops/loss/pass.h>
#include <bevel/ops/raw.h>

#if defined(__CUDACC__)
#include <bevel/ops/loss/detail/row_kernels.cuh>
#endif

namespace bevel::detail {

template <class F>
void launch_library_loss(const raw::OnStream& where, const F& formula, const raw::LossPass& pass);

void launch_library_scale(const raw::OnStream& where, const raw::GradientScale& scale);

#if defined(__CUDACC__)
template <class F>
void launch_library_loss(const raw::OnStream& where, const F& formula, const raw::LossPass& pass) {
  launch_loss<Compiler::nvcc>(where, formula, pass);
}
#endif

}  // namespace bevel::detail
