// From a formula to its LossKernels: for a user's formula, and for those of the library.
#pragma once

#include <bevel/core/error.h>
#include <bevel/ops/loss/detail/tile.h>

#if defined(__CUDACC__)
#include <bevel/ops/loss/detail/kernels.cuh>
#endif

namespace bevel::detail {

// A formula compiled where it is used.
template <class F, Compiler compiler>
class CompiledLoss final : public LossKernels {
 public:
  explicit CompiledLoss(const F& formula) : formula_(formula) {}

  bool of_error() const override { return ErrorFormula<F>; }
  void evaluate(const LossTile<float>& tile) const override { evaluate_tile<compiler>(formula_, tile); }
  void evaluate(const LossTile<double>& tile) const override { evaluate_tile<compiler>(formula_, tile); }
  void launch([[maybe_unused]] Cuda backend, [[maybe_unused]] const LossPass& pass) const override {
#if defined(__CUDACC__)
    launch_loss<compiler>(backend, formula_, pass);
#else
    fail("pointwise_loss: the tensors are on ", backend.device,
         ", but this formula was compiled for the CPU only: nvcc must compile the file that calls pointwise_loss (name "
         "it .cu)");
#endif
  }

 private:
  F formula_;
};

// Defined by nvcc, in the .cu file of the loss.
template <class F>
void launch_library_loss(Cuda backend, const F& formula, const LossPass& pass);

// A formula of the library: the CPU loops are compiled where this is instantiated, the CUDA kernels in a .cu file.
template <class F>
class LibraryLoss final : public LossKernels {
 public:
  explicit LibraryLoss(const F& formula) : formula_(formula) {}

  bool of_error() const override { return ErrorFormula<F>; }
  void evaluate(const LossTile<float>& tile) const override { evaluate_tile<Compiler::host>(formula_, tile); }
  void evaluate(const LossTile<double>& tile) const override { evaluate_tile<Compiler::host>(formula_, tile); }
  void launch([[maybe_unused]] Cuda backend, [[maybe_unused]] const LossPass& pass) const override {
    if constexpr (has_cuda) launch_library_loss(backend, formula_, pass);
  }

 private:
  F formula_;
};

#if defined(__CUDACC__)
template <class F>
void launch_library_loss(Cuda backend, const F& formula, const LossPass& pass) {
  launch_loss<Compiler::nvcc>(backend, formula, pass);
}
#endif

}  // namespace bevel::detail
