#include <bevel/nn/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

namespace bevel::optim {

void Optimizer::add_items(const char* function, std::span<const Tensor> parameters, double lr) {
  require(std::isfinite(lr) && lr >= 0, function, ": lr must be finite and not negative; got ", lr);
  std::vector<Item> added;
  for (const Tensor& parameter : parameters) {
    require(parameter.defined(), function, ": a parameter is undefined");
    require(parameter.is_leaf(), function, ": a parameter of shape ", parameter.shape(),
            " was computed by an operator; only leaves can be trained");
    require(parameter.dtype() == f32 || parameter.dtype() == f64, function, ": parameters must be f32 or f64; one is ",
            parameter.dtype(), " ", parameter.shape());
    const auto is_it = [&](const Item& item) { return same(item.parameter, parameter); };
    if (std::any_of(added.begin(), added.end(), is_it)) continue;
    require(std::none_of(items_.begin(), items_.end(), is_it), function, ": a parameter of shape ", parameter.shape(),
            " is in another group already");
    added.push_back({.parameter = parameter, .group = rates_.size()});
  }
  base_rates_.push_back(lr);
  rates_.push_back(lr);
  for (Item& item : added) items_.push_back(std::move(item));
}

void Optimizer::zero_grad() {
  for (const Item& item : items_) item.parameter.set_grad({});
}

void Optimizer::step() {
  using Key = std::tuple<std::size_t, int, Dtype>;  // group, device, dtype
  std::map<Key, std::vector<Item*>> batches;
  for (Item& item : items_) {
    if (!item.parameter.grad().defined()) continue;
    const Device device = item.parameter.device();
    if (item.moments.empty())
      for (std::size_t i = 0; i < moment_names_.size(); ++i)
        item.moments.push_back(Tensor::zeros(item.parameter.shape(), item.parameter.options()));
    for (Tensor& moment : item.moments) {
      require(moment.dtype() == item.parameter.dtype(), "Optimizer::step: a parameter of shape ",
              item.parameter.shape(), " has become ", item.parameter.dtype(), " since the optimizer saw it as ",
              moment.dtype());
      moment = moment.to(device);
    }
    batches[{item.group, device.is_cuda() ? device.index : -1, item.parameter.dtype()}].push_back(&item);
  }
  for (const auto& [key, items] : batches) {
    for (Item* item : items) ++item->steps;
    update(std::get<0>(key), rates_[std::get<0>(key)], items);
    for (const Item* item : items) {
      item->parameter.mark_changed();
      for (const Tensor& moment : item->moments) moment.mark_changed();
    }
  }
}

double Optimizer::lr() const {
  return rates_.at(0);
}

void Optimizer::set_lr(double lr) {
  require(std::isfinite(lr) && lr >= 0, "set_lr: lr must be finite and not negative; got ", lr);
  const double first = base_rates_.at(0);
  for (std::size_t i = 0; i < rates_.size(); ++i) rates_[i] = first > 0 ? lr * (base_rates_[i] / first) : lr;
}

NamedTensors Optimizer::state() const {
  NamedTensors result;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    result.push_back({message(i, ".steps"), Tensor::from_values<std::int64_t>({}, std::vector{item.steps})});
    for (std::size_t k = 0; k < item.moments.size(); ++k)
      result.push_back({message(i, ".", moment_names_[k]), item.moments[k]});
  }
  return result;
}

void Optimizer::load_state(std::span<const NamedTensor> state) {
  // Which moments are there depends on the counts: a parameter that was never updated has none.
  std::map<std::string_view, const Tensor*> found;
  for (const NamedTensor& entry : state) found[entry.name] = &entry.tensor;
  std::vector<Item> loaded = items_;
  NamedTensors target;
  std::vector<Tensor> counts;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    Item& item = loaded[i];
    item.moments.clear();
    counts.push_back(Tensor::zeros({}, {.dtype = i64}));
    target.push_back({message(i, ".steps"), counts.back()});
    for (const char* name : moment_names_) {
      if (!found.contains(message(i, ".", name))) continue;
      item.moments.push_back(Tensor::empty(item.parameter.shape(), item.parameter.options()));
      target.push_back({message(i, ".", name), item.moments.back()});
    }
    require(item.moments.empty() || item.moments.size() == moment_names_.size(),
            "Optimizer::load_state: some of the moments of parameter ", i, " are missing");
  }
  copy_matching("Optimizer::load_state", target, state);
  for (std::size_t i = 0; i < loaded.size(); ++i) loaded[i].steps = static_cast<std::int64_t>(counts[i].item());
  items_ = std::move(loaded);
}

}  // namespace bevel::optim
