#include <bevel/nn/optim/adam.h>
#include <bevel/nn/optim/detail/slots.h>

#include <cmath>
#include <type_traits>

namespace bevel::optim {

namespace {

template <class Options>
void check(const char* function, const Options& options) {
  require(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1, function,
          ": beta1 and beta2 must lie in [0, 1); got ", options.beta1, " and ", options.beta2);
  require(std::isfinite(options.eps) && options.eps >= 0, function, ": eps must be finite and not negative; got ",
          options.eps);
  require(std::isfinite(options.weight_decay) && options.weight_decay >= 0, function,
          ": weight_decay must be finite and not negative; got ", options.weight_decay);
}

template <class T, class Options>
detail::AdamRule<T> rule_of(const Options& options) {
  return {options.beta1, options.beta2, options.weight_decay, static_cast<T>(options.eps),
          std::is_same_v<Options, AdamWOptions>};
}

}  // namespace

Adam::Adam(const std::vector<Tensor>& parameters, AdamOptions options) : Optimizer({"m", "v"}) {
  add_group(parameters, options);
}

void Adam::add_group(const std::vector<Tensor>& parameters, AdamOptions options) {
  check("Adam", options);
  add_items("Adam", parameters, options.lr);
  options_.push_back(options);
}

void Adam::update(const Batch& batch) {
  detail::run(batch, "Adam", [&]<class T>(std::size_t group) { return rule_of<T>(options_[group]); });
}

detail::Progress Adam::progress(std::size_t group, std::int64_t steps) const {
  return rule_of<double>(options_[group]).after(steps);
}

AdamW::AdamW(const std::vector<Tensor>& parameters, AdamWOptions options) : Optimizer({"m", "v"}) {
  add_group(parameters, options);
}

void AdamW::add_group(const std::vector<Tensor>& parameters, AdamWOptions options) {
  check("AdamW", options);
  add_items("AdamW", parameters, options.lr);
  options_.push_back(options);
}

void AdamW::update(const Batch& batch) {
  detail::run(batch, "AdamW", [&]<class T>(std::size_t group) { return rule_of<T>(options_[group]); });
}

detail::Progress AdamW::progress(std::size_t group, std::int64_t steps) const {
  return rule_of<double>(options_[group]).after(steps);
}

}  // namespace bevel::optim
