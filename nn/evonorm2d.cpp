#include <bevel/nn/evonorm2d.h>
#include <bevel/nn/init.h>

#include <cmath>

namespace bevel::nn {

namespace {

Tensor filled(std::int64_t channels, double value, bool requires_grad) {
  const Tensor result = Tensor::empty({channels});
  constant(result, value);
  return result.set_requires_grad(requires_grad);
}

}  // namespace

EvoNorm2d::EvoNorm2d(std::int64_t channels, const EvoNorm2dOptions& options) : options_(options) {
  require(channels >= 1, "EvoNorm2d: channels must be at least 1; got ", channels);
  const bool grouped = options.nonlinearity && !has_batch_term(options.variant);
  const bool by_size = options.group_size != 0;
  const std::int64_t divisor = by_size ? options.group_size : options.groups;
  require(!grouped || (divisor >= 1 && channels % divisor == 0), "EvoNorm2d: ", by_size ? "group_size" : "groups",
          " must divide the ", channels, " channels; got ", divisor);
  require(std::isfinite(options.eps) && options.eps >= 0, "EvoNorm2d: eps must be finite and not negative; got ",
          options.eps);
  require(options.momentum >= 0 && options.momentum <= 1, "EvoNorm2d: momentum must lie in [0, 1]; got ",
          options.momentum);
  weight = filled(channels, options.zero_gamma ? 0 : 1, true);
  bias = filled(channels, 0, true);
  if (options.nonlinearity && has_v(options.variant)) v = filled(channels, 1, true);
  if (options.nonlinearity && has_batch_term(options.variant)) running_var = filled(channels, 1, false);
}

Tensor EvoNorm2d::forward(const Tensor& input) {
  return evonorm(input, weight, bias, v, running_var,
                 {.variant = options_.variant,
                  .groups = options_.groups,
                  .group_size = options_.group_size,
                  .eps = options_.eps,
                  .momentum = options_.momentum,
                  .training = is_training(),
                  .nonlinearity = options_.nonlinearity,
                  .layout = options_.layout,
                  .recompute = options_.recompute});
}

void EvoNorm2d::visit(Visitor& visitor) {
  visitor("weight", weight);
  visitor("bias", bias);
  visitor("v", v);
  visitor.buffer("running_var", running_var);
}

EvoNorm2d EvoNorm2d::clone() const {
  EvoNorm2d copy(options_);
  copy.weight = clone_leaf(weight);
  copy.bias = clone_leaf(bias);
  copy.v = clone_leaf(v);
  copy.running_var = clone_leaf(running_var);
  return detail::cloned(*this, std::move(copy));
}

}  // namespace bevel::nn
