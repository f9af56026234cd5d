#include <bevel/nn/optim/adam.h>
#include <bevel/nn/optim/detail/slots.h>

#include <cmath>

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

// `decay` goes into the gradient, `shrink` multiplies the parameter.
template <class Options, class Items>
void update_items(const char* function, const Options& options, double lr, double decay, double shrink,
                  const Items& items) {
  visit_float_double(items[0]->parameter.dtype(), function, [&]<class T>() {
    std::vector<detail::Slot<T>> slots;
    for (const auto* item : items) {
      slots.push_back(detail::make_slot<T>(item->parameter, item->moments));
      const auto t = static_cast<double>(item->steps);
      slots.back().scalars[0] = static_cast<T>(lr / (1 - std::pow(options.beta1, t)));
      slots.back().scalars[1] = static_cast<T>(1 / std::sqrt(1 - std::pow(options.beta2, t)));
    }
    const detail::AdamRule<T> rule{
        .beta1 = static_cast<T>(options.beta1),
        .rest1 = static_cast<T>(1 - options.beta1),
        .beta2 = static_cast<T>(options.beta2),
        .rest2 = static_cast<T>(1 - options.beta2),
        .eps = static_cast<T>(options.eps),
        .decay = static_cast<T>(decay),
        .shrink = static_cast<T>(shrink),
    };
    detail::run(items[0]->parameter.device(), slots, rule);
  });
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

void Adam::update(std::size_t group, double lr, std::span<Item* const> items) {
  update_items("Adam", options_[group], lr, options_[group].weight_decay, 1, items);
}

AdamW::AdamW(const std::vector<Tensor>& parameters, AdamWOptions options) : Optimizer({"m", "v"}) {
  add_group(parameters, options);
}

void AdamW::add_group(const std::vector<Tensor>& parameters, AdamWOptions options) {
  check("AdamW", options);
  add_items("AdamW", parameters, options.lr);
  options_.push_back(options);
}

void AdamW::update(std::size_t group, double lr, std::span<Item* const> items) {
  update_items("AdamW", options_[group], lr, 0, 1 - lr * options_[group].weight_decay, items);
}

}  // namespace bevel::optim
