#include <bevel/nn/optim/detail/slots.h>
#include <bevel/nn/optim/sgd.h>

#include <cmath>

namespace bevel::optim {

namespace {
void check(const SgdOptions& options) {
  const auto check_one = [](const char* name, double value) {
    require(std::isfinite(value) && value >= 0, "SGD: ", name, " must be finite and not negative; got ", value);
  };
  check_one("momentum", options.momentum);
  check_one("dampening", options.dampening);
  check_one("weight_decay", options.weight_decay);
  require(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
          "SGD: nesterov needs momentum > 0 and dampening = 0; got ", options.momentum, " and ", options.dampening);
}
}  // namespace

SGD::SGD(const std::vector<Tensor>& parameters, SgdOptions options)
    : Optimizer(options.momentum != 0 ? std::vector{"m"} : std::vector<const char*>{}) {
  add_group(parameters, options);
}

void SGD::add_group(const std::vector<Tensor>& parameters, SgdOptions options) {
  check(options);
  require(options_.empty() || (options_[0].momentum == 0) == (options.momentum == 0),
          "SGD: momentum must be 0 in all groups or in none; got ", options.momentum, " beside ",
          options_.empty() ? 0.0 : options_[0].momentum);
  add_items("SGD", parameters, options.lr);
  options_.push_back(options);
}

void SGD::update(std::size_t group, double lr, std::span<Item* const> items) {
  const SgdOptions& options = options_[group];
  visit_float_double(items[0]->parameter.dtype(), "SGD", [&]<class T>() {
    const T rate = static_cast<T>(lr);
    const T decay = static_cast<T>(options.weight_decay);
    std::vector<detail::Slot<T>> slots;
    for (Item* item : items) {
      slots.push_back(detail::make_slot<T>(item->parameter, item->moments));
      const bool first = item->steps == 1;
      slots.back().scalars[0] = first ? T(0) : static_cast<T>(options.momentum);
      slots.back().scalars[1] = first ? T(1) : static_cast<T>(1 - options.dampening);
    }
    const auto momentum = static_cast<T>(options.momentum);
    if (options.momentum == 0)
      detail::run(items[0]->parameter.device(), slots, detail::PlainSgd<T>{rate, decay});
    else
      detail::run(items[0]->parameter.device(), slots, detail::MomentumSgd<T>{rate, decay, momentum, options.nesterov});
  });
}

}  // namespace bevel::optim
