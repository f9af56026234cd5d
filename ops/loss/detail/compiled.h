// From a formula to its LossKernels, compiled where it is used.
#pragma once

#include <bevel/core/error.h>
#include <bevel/ops/loss/detail/loss_kernels.h>
#include <bevel/ops/loss/detail/tile.h>

#if defined(__CUDACC__)
#include <bevel/ops/loss/detail/row_kernels.cuh>
#endif

namespace bevel::detail {

template <class F, Compiler compiler>
class CompiledLoss final : public LossKernels {
 public:
  explicit CompiledLoss(const F& formula) : formula_(formula) {}

  int width() const override { return row_width<F>; }
  bool of_error() const override { return ErrorFormula<F>; }
  void evaluate(const LossTile<float>& tile) const override { evaluate_tile<compiler>(formula_, tile); }
  void evaluate(const LossTile<double>& tile) const override { evaluate_tile<compiler>(formula_, tile); }
  void launch([[maybe_unused]] const raw::OnStream& where, [[maybe_unused]] const LossPass& pass) const override {
#if defined(__CUDACC__)
    launch_loss<compiler>(where, formula_, pass);
#else
    fail(
        "pointwise_loss: the tensors are on a GPU, "
        "but this formula was compiled for the CPU only: nvcc must compile the file that calls pointwise_loss (name "
        "it .cu)");
#endif
  }

 private:
  F formula_;
};

}  // namespace bevel::detail
