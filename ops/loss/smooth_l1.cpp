#include <bevel/ops/loss/detail/compiled.h>
#include <bevel/ops/loss/detail/driver.h>
#include <bevel/ops/loss/smooth_l1.h>

#include <cmath>

namespace bevel {

Tensor smooth_l1(const Tensor& input, const Tensor& target, const SmoothL1Options& options) {
  require(std::isfinite(options.beta) && options.beta >= 0, "smooth_l1: beta must be finite and at least 0; got ",
          options.beta);
  return detail::run_loss("smooth_l1", std::make_shared<const detail::LibraryLoss<SmoothL1>>(SmoothL1{options.beta}),
                          input, target,
                          {options.reduction, options.weight, options.scale, options.normalizer, options.fused});
}

}  // namespace bevel
