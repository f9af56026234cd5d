#include <bevel/ops/loss/charbonnier.h>
#include <bevel/ops/loss/detail/library.h>
#include <bevel/ops/loss/log_cosh.h>
#include <bevel/ops/loss/quantile_loss.h>

#include <cmath>

namespace bevel {

Tensor log_cosh(const Tensor& input, const Tensor& target, const LossOptions& options) {
  return detail::library_loss("log_cosh", formula::LogCosh{}, input, target, options);
}

Tensor charbonnier(const Tensor& input, const Tensor& target, const CharbonnierOptions& options) {
  require(std::isfinite(options.eps) && options.eps > 0, "charbonnier: eps must be positive and finite; got ",
          options.eps);
  return detail::library_loss("charbonnier", formula::Charbonnier{options.eps}, input, target, options);
}

Tensor quantile_loss(const Tensor& input, const Tensor& target, const QuantileOptions& options) {
  require(options.tau > 0 && options.tau < 1, "quantile_loss: tau must lie between 0 and 1; got ", options.tau);
  return detail::library_loss("quantile_loss", formula::Quantile{options.tau}, input, target, options);
}

}  // namespace bevel
