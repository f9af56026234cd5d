// The other losses, all at one size: a formula with more arithmetic must cost no more than its bytes. The losses of
// boxes work on as many rows of four numbers as a detector never has, so that the kernel shows and not its launch.
#include "bench/loss_case.h"

#include <bevel/ops/loss/bce_with_logits.h>
#include <bevel/ops/loss/charbonnier.h>
#include <bevel/ops/loss/huber.h>
#include <bevel/ops/loss/iou.h>
#include <bevel/ops/loss/l1.h>
#include <bevel/ops/loss/log_cosh.h>
#include <bevel/ops/loss/mse.h>
#include <bevel/ops/loss/poisson_nll.h>
#include <bevel/ops/loss/quantile_loss.h>

namespace bevel::bench {

namespace {

struct Loss {
  const char* name;
  LossFunction function;
  Range input = {};
  Range target = {};
};

// A loss whose options carry a parameter of its own, at its default.
template <class Options>
LossFunction with(Tensor (*loss)(const Tensor&, const Tensor&, const Options&)) {
  return [loss](const Tensor& input, const Tensor& target, Reduction reduction, bool fused) {
    Options options;
    options.reduction = reduction;
    options.fused = fused;
    return loss(input, target, options);
  };
}

std::vector<Loss> pointwise_losses() {
  return {{"huber", with(huber)},
          {"l1", with(l1)},
          {"mse", with(mse)},
          {"log_cosh", with(log_cosh)},
          {"charbonnier", with(charbonnier)},
          {"quantile_loss", with(quantile_loss)},
          {"bce_with_logits", with(bce_with_logits), {-4, 4}, {0, 1}},
          {"poisson_nll", with(poisson_nll), {-2, 2}, {0, 4}}};
}

constexpr Range box_range{0, 1, true};

std::vector<Loss> box_losses() {
  return {{"iou_loss", with(iou_loss), box_range, box_range},
          {"giou_loss", with(giou_loss), box_range, box_range},
          {"diou_loss", with(diou_loss), box_range, box_range},
          {"ciou_loss", with(ciou_loss), box_range, box_range}};
}

void append(std::vector<Case>& cases, const std::vector<Loss>& losses, const NamedShape& shape, Dtype dtype,
            bool quick) {
  for (const Loss& loss : losses)
    for (Case& each : mean_cases({loss.name, shape, dtype, false, loss.function, loss.input, loss.target})) {
      each.quick = quick || each.variant == "fused";
      cases.push_back(std::move(each));
    }
}

}  // namespace

std::vector<Case> loss_cases(const Selection& selection) {
  const std::vector<Dtype> dtypes = selection.dtypes.empty() ? std::vector<Dtype>{f32} : selection.dtypes;
  const bool is_cuda = selection.device.is_cuda();
  std::vector<Case> cases;
  for (const Dtype dtype : dtypes) {
    for (const NamedShape& shape : selection.shapes) {
      append(cases, pointwise_losses(), shape, dtype, true);
      if (shape.shape[-1] == 4) append(cases, box_losses(), shape, dtype, true);
    }
    if (!selection.shapes.empty()) continue;
    append(cases, pointwise_losses(), parse_shape(is_cuda ? "2^26" : "2^22"), dtype, false);
    append(cases, box_losses(), parse_shape(is_cuda ? "2^24x4" : "2^20x4"), dtype, false);
  }
  return cases;
}

}  // namespace bevel::bench
