// The other losses, all at one size: a formula with more arithmetic must cost no more than its bytes.
#include "bench/loss_case.h"

#include <bevel/ops/loss/bce_with_logits.h>
#include <bevel/ops/loss/charbonnier.h>
#include <bevel/ops/loss/huber.h>
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

std::vector<Loss> all_losses() {
  return {{"huber", with(huber)},
          {"l1", with(l1)},
          {"mse", with(mse)},
          {"log_cosh", with(log_cosh)},
          {"charbonnier", with(charbonnier)},
          {"quantile_loss", with(quantile_loss)},
          {"bce_with_logits", with(bce_with_logits), {-4, 4}, {0, 1}},
          {"poisson_nll", with(poisson_nll), {-2, 2}, {0, 4}}};
}

}  // namespace

std::vector<Case> loss_cases(const Selection& selection) {
  std::vector<NamedShape> shapes = selection.shapes;
  if (shapes.empty()) shapes = {parse_shape(selection.device.is_cuda() ? "2^26" : "2^22")};
  const std::vector<Dtype> dtypes = selection.dtypes.empty() ? std::vector<Dtype>{f32} : selection.dtypes;
  std::vector<Case> cases;
  for (const NamedShape& shape : shapes)
    for (const Dtype dtype : dtypes)
      for (const Loss& loss : all_losses())
        for (Case& each : mean_cases({loss.name, shape, dtype, false, loss.function, loss.input, loss.target})) {
          each.quick = !selection.shapes.empty() || each.variant == "fused";
          cases.push_back(std::move(each));
        }
  return cases;
}

}  // namespace bevel::bench
