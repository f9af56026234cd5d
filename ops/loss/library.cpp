// The library's formulas: their CPU loops are compiled here, their CUDA kernels in the .cu files.
#include <bevel/ops/loss/bce_with_logits.h>
#include <bevel/ops/loss/charbonnier.h>
#include <bevel/ops/loss/detail/library_launch.h>
#include <bevel/ops/loss/detail/loss_kernels.h>
#include <bevel/ops/loss/detail/tile.h>
#include <bevel/ops/loss/huber.h>
#include <bevel/ops/loss/iou.h>
#include <bevel/ops/loss/l1.h>
#include <bevel/ops/loss/log_cosh.h>
#include <bevel/ops/loss/mse.h>
#include <bevel/ops/loss/poisson_nll.h>
#include <bevel/ops/loss/quantile_loss.h>
#include <bevel/ops/loss/raw.h>
#include <bevel/ops/loss/smooth_l1.h>

namespace bevel::detail {

namespace {

template <class F>
class LibraryLoss final : public LossKernels {
 public:
  explicit LibraryLoss(const F& formula) : formula_(formula) {}

  int width() const override { return row_width<F>; }
  bool of_error() const override { return ErrorFormula<F>; }
  void evaluate(const LossTile<float>& tile) const override { evaluate_tile<Compiler::host>(formula_, tile); }
  void evaluate(const LossTile<double>& tile) const override { evaluate_tile<Compiler::host>(formula_, tile); }
  void launch([[maybe_unused]] const raw::OnStream& where, [[maybe_unused]] const LossPass& pass) const override {
    if constexpr (has_cuda) launch_library_loss(where, formula_, pass);
  }

 private:
  F formula_;
};

}  // namespace

template <class F>
std::shared_ptr<const LossKernels> LibraryFormula<F>::kernels(const F& formula) {
  return std::make_shared<const LibraryLoss<F>>(formula);
}

template <class F>
void LibraryFormula<F>::run(Cpu backend, const F& formula, const LossPass& pass) {
  if (pass.count > 0) run_pass(backend, LibraryLoss<F>(formula), pass);
}

template <class F>
void LibraryFormula<F>::run([[maybe_unused]] const raw::OnStream& where, [[maybe_unused]] const F& formula,
                            [[maybe_unused]] const LossPass& pass) {
  require(has_cuda, "raw::loss: this build of Bevel has no CUDA");
  if constexpr (has_cuda)
    if (pass.count > 0) launch_library_loss(where, formula, pass);
}

template struct LibraryFormula<formula::SmoothL1>;
template struct LibraryFormula<formula::Huber>;
template struct LibraryFormula<formula::L1>;
template struct LibraryFormula<formula::Mse>;
template struct LibraryFormula<formula::BceWithLogits>;
template struct LibraryFormula<formula::PoissonNll>;
template struct LibraryFormula<formula::LogCosh>;
template struct LibraryFormula<formula::Charbonnier>;
template struct LibraryFormula<formula::Quantile>;
template struct LibraryFormula<formula::BoxOverlap<formula::Overlap::iou>>;
template struct LibraryFormula<formula::BoxOverlap<formula::Overlap::giou>>;
template struct LibraryFormula<formula::BoxOverlap<formula::Overlap::diou>>;
template struct LibraryFormula<formula::BoxOverlap<formula::Overlap::ciou>>;

}  // namespace bevel::detail

namespace bevel::raw {

void scale_gradient([[maybe_unused]] const OnStream& where, [[maybe_unused]] const GradientScale& scale) {
  require(has_cuda, "raw::scale_gradient: this build of Bevel has no CUDA");
  if constexpr (has_cuda) detail::launch_library_scale(where, scale);
}

}  // namespace bevel::raw
