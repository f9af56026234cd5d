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

template <class T>
detail::MomentumSgd<T> momentum_rule(const SgdOptions& options) {
  return {static_cast<T>(options.weight_decay), static_cast<T>(options.momentum), options.momentum,
          1 - options.dampening, options.nesterov};
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

void SGD::update(const Batch& batch) {
  if (options_[0].momentum == 0)
    detail::run(batch, "SGD", [&]<class T>(std::size_t group) {
      return detail::PlainSgd<T>{static_cast<T>(options_[group].weight_decay)};
    });
  else
    detail::run(batch, "SGD", [&]<class T>(std::size_t group) { return momentum_rule<T>(options_[group]); });
}

detail::Progress SGD::progress(std::size_t group, std::int64_t steps) const {
  return momentum_rule<double>(options_[group]).after(steps);
}

}  // namespace bevel::optim
