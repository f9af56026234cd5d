#include <bevel/nn/optim/detail/slots.h>
#include <bevel/nn/optim/lion.h>

#include <cmath>

namespace bevel::optim {

namespace {

template <class T>
detail::LionRule<T> rule_of(const LionOptions& options) {
  return {options.beta1, options.beta2, options.weight_decay};
}

}  // namespace

Lion::Lion(const std::vector<Tensor>& parameters, LionOptions options) : Optimizer({"m"}) {
  add_group(parameters, options);
}

void Lion::add_group(const std::vector<Tensor>& parameters, LionOptions options) {
  require(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
          "Lion: beta1 and beta2 must lie in [0, 1); got ", options.beta1, " and ", options.beta2);
  require(std::isfinite(options.weight_decay) && options.weight_decay >= 0,
          "Lion: weight_decay must be finite and not negative; got ", options.weight_decay);
  add_items("Lion", parameters, options.lr);
  options_.push_back(options);
}

void Lion::update(const Batch& batch) {
  detail::run(batch, "Lion", [&]<class T>(std::size_t group) { return rule_of<T>(options_[group]); });
}

detail::Progress Lion::progress(std::size_t group, std::int64_t steps) const {
  return rule_of<double>(options_[group]).after(steps);
}

}  // namespace bevel::optim
