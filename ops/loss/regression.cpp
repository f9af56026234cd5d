#include <bevel/ops/loss/detail/library.h>
#include <bevel/ops/loss/huber.h>
#include <bevel/ops/loss/l1.h>
#include <bevel/ops/loss/mse.h>
#include <bevel/ops/loss/smooth_l1.h>

#include <cmath>

namespace bevel {

Tensor smooth_l1(const Tensor& input, const Tensor& target, const SmoothL1Options& options) {
  require(std::isfinite(options.beta) && options.beta >= 0, "smooth_l1: beta must be finite and at least 0; got ",
          options.beta);
  return detail::library_loss("smooth_l1", formula::SmoothL1{options.beta}, input, target, options);
}

Tensor huber(const Tensor& input, const Tensor& target, const HuberOptions& options) {
  require(std::isfinite(options.delta) && options.delta > 0, "huber: delta must be positive and finite; got ",
          options.delta);
  return detail::library_loss("huber", formula::Huber{options.delta}, input, target, options);
}

Tensor l1(const Tensor& input, const Tensor& target, const LossOptions& options) {
  return detail::library_loss("l1", formula::L1{}, input, target, options);
}

Tensor mse(const Tensor& input, const Tensor& target, const LossOptions& options) {
  return detail::library_loss("mse", formula::Mse{}, input, target, options);
}

}  // namespace bevel
