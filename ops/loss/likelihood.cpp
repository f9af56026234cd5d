#include <bevel/ops/loss/bce_with_logits.h>
#include <bevel/ops/loss/detail/library.h>
#include <bevel/ops/loss/poisson_nll.h>

namespace bevel {

Tensor bce_with_logits(const Tensor& input, const Tensor& target, const LossOptions& options) {
  return detail::library_loss("bce_with_logits", formula::BceWithLogits{}, input, target, options);
}

Tensor poisson_nll(const Tensor& input, const Tensor& target, const LossOptions& options) {
  return detail::library_loss("poisson_nll", formula::PoissonNll{}, input, target, options);
}

}  // namespace bevel
