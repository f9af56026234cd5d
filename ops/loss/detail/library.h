// The formulas of the library: their CPU loops are compiled in a .cpp file, their CUDA kernels in the .cu file beside
// it.
#pragma once

#include <bevel/ops/loss/detail/driver.h>
#include <bevel/ops/loss/detail/tile.h>

#if defined(__CUDACC__)
#include <bevel/ops/loss/detail/row_kernels.cuh>
#endif

namespace bevel::detail {

// Defined by nvcc, in the .cu file of the loss.
template <class F>
void launch_library_loss(Cuda backend, const F& formula, const LossPass& pass);

// A formula of the library: the CPU loops are compiled where this is instantiated, the CUDA kernels in a .cu file.
template <class F>
class LibraryLoss final : public LossKernels {
 public:
  explicit LibraryLoss(const F& formula) : formula_(formula) {}

  int width() const override { return row_width<F>; }
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

// `options` has the fields of LossOptions and more.
template <class F, class Options>
Tensor library_loss(const char* name, const F& formula, const Tensor& input, const Tensor& target,
                    const Options& options) {
  return run_loss(name, std::make_shared<const LibraryLoss<F>>(formula), input, target,
                  {options.reduction, options.weight, options.scale, options.normalizer, options.fused});
}

}  // namespace bevel::detail
