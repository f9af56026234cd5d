#include <bevel/core/autograd.h>
#include <bevel/core/half_copy.h>
#include <bevel/core/profile.h>
#include <bevel/nn/detail/clip_kernels.h>
#include <bevel/nn/optim/detail/place.h>
#include <bevel/nn/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>

namespace bevel::optim {

Optimizer::Optimizer(std::vector<const char*> moment_names)
    : moment_names_(std::move(moment_names)), rates_(std::make_shared<detail::Rates>()) {}
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;
Optimizer::~Optimizer() = default;

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
    added.push_back({.parameter = parameter, .group = rates_->now.size(), .index = items_.size() + added.size()});
  }
  rates_->base.push_back(lr);
  rates_->now.push_back(lr);
  for (Item& item : added) items_.push_back(std::move(item));
}

void Optimizer::zero_grad() {
  for (const Item& item : items_) item.parameter.set_grad({});
}

// The place of a device, large enough for all parameters and groups.
std::shared_ptr<detail::Place> Optimizer::place_on(Device device) {
  for (std::shared_ptr<detail::Place>& place : places_) {
    if (place->device() != device) continue;
    if (place->items() == items_.size() && place->groups() == rates_->now.size()) return place;
    fetch_counts();  // groups were added: a new place takes over
    place->retire();
    for (Item& item : items_)
      if (item.place == place) item.place.reset();
    return place = std::make_shared<detail::Place>(device, items_.size(), rates_->now.size());
  }
  return places_.emplace_back(std::make_shared<detail::Place>(device, items_.size(), rates_->now.size()));
}

// The host's counts, from the places.
void Optimizer::fetch_counts() const {
  for (const std::shared_ptr<detail::Place>& place : places_) {
    const auto in_use = [&](const Item& item) { return item.place == place; };
    if (std::none_of(items_.begin(), items_.end(), in_use)) continue;
    const std::vector<std::int64_t> steps = place->steps();
    for (Item& item : items_)
      if (item.place == place) item.steps = steps[item.index];
  }
}

// Makes what is kept for a parameter, on the device where the parameter is now.
void Optimizer::prepare(Item& item) {
  const Tensor& parameter = item.parameter;
  const Device device = parameter.device();
  const bool lacks_moments = item.moments.empty() && !moment_names_.empty();
  const bool lacks_average = average_rest_ > 0 && !item.average.defined();
  if (lacks_moments || lacks_average) {
    const bevel::detail::Unrecorded now;
    if (lacks_moments)
      for (std::size_t i = 0; i < moment_names_.size(); ++i)
        item.moments.push_back(Tensor::zeros(parameter.shape(), parameter.options()));
    if (lacks_average) item.average = parameter.detach().clone();
  }
  const auto follow = [&](Tensor& kept) {
    require(kept.dtype() == parameter.dtype(), "Optimizer::step: a parameter of shape ", parameter.shape(),
            " has become ", parameter.dtype(), " since the optimizer saw it as ", kept.dtype());
    if (kept.device() != device) kept = kept.to(device);
  };
  for (Tensor& moment : item.moments) follow(moment);
  if (item.average.defined()) follow(item.average);
  if (item.place && item.place->device() == device && item.place->items() == items_.size() &&
      item.place->groups() == rates_->now.size())
    return;
  if (item.place) fetch_counts();
  item.place = place_on(device);
  item.place->set_progress(item.index, progress(item.group, item.steps));
}

std::vector<Optimizer::Batch> Optimizer::collect() {
  std::vector<Batch> batches;
  for (Item& item : items_) {
    if (!item.parameter.requires_grad() || !item.parameter.shared_impl()->autograd.grad) continue;
    prepare(item);
    const auto fits = [&](const Batch& batch) {
      return batch.place == item.place && batch.dtype == item.parameter.dtype();
    };
    auto batch = std::find_if(batches.begin(), batches.end(), fits);
    if (batch == batches.end())
      batch = batches.insert(batch, {.device = item.parameter.device(),
                                     .dtype = item.parameter.dtype(),
                                     .place = item.place,
                                     .average_rest = average_rest_});
    if (batch->items.empty()) batch->items.reserve(items_.size());
    batch->items.push_back(&item);
  }
  return batches;
}

// What multiplies all gradients, in the memory of their device.
bevel::detail::Factor Optimizer::gradient_factor(const std::vector<Batch>& batches, const Tensor& factor) {
  if (factor.defined())
    require(factor.numel() == 1 && (factor.dtype() == f32 || factor.dtype() == f64),
            "Optimizer::step: the factor must ", "be one number of f32 or f64; it is ", factor.dtype(), " ",
            factor.shape());
  if (!factor.defined() && max_norm_ == 0) return {};
  const std::shared_ptr<detail::Place>& place = batches[0].place;
  for (const Batch& batch : batches)
    require(batch.place == place && (!factor.defined() || factor.device() == batch.device),
            "Optimizer::step: with a gradient norm or a factor everything must be on one device; found ",
            place->device(), " and ", factor.defined() ? factor.device() : batch.device);
  if (max_norm_ == 0) return bevel::detail::factor_of(factor);

  std::vector<nn::detail::Gradient> gradients;
  for (const Batch& batch : batches)
    for (const Item* item : batch.items) {
      const Tensor gradient = item->parameter.grad();
      gradients.push_back({gradient.raw(), gradient.numel(), gradient.dtype() == f64});
    }
  nn::detail::NormRequest request;
  request.max_norm = max_norm_;
  request.factor = bevel::detail::factor_of(factor);
  request.norm = place->norm();
  request.scale = place->factor();
  request.arrived = place->arrived();
  on(place->device(),
     [&](auto backend) { nn::detail::gradient_norm(backend, gradients, request, place->gradient_table); });
  norm_place_ = place;
  return {place->factor(), true};
}

// A captured step repeats on the host what the device cannot know.
void Optimizer::register_replay(const std::vector<Batch>& batches) const {
  std::vector<Tensor> with_half;
  for (const Batch& batch : batches) {
    // The first run takes the rates of this moment, which the rest of the step may change.
    bevel::detail::before_replay(
        [place = batch.place, rates = rates_, at_first = rates_->now](bevel::detail::Transfers& transfers) mutable {
          require(!place->is_retired(), "capture: the optimizer has got further groups; make a new captured step");
          place->write(at_first.empty() ? rates->now : at_first, transfers);
          at_first.clear();
        });
    for (const Item* item : batch.items)
      if (item->parameter.shared_impl()->half_copy) with_half.push_back(item->parameter);
  }
  if (with_half.empty()) return;
  bevel::detail::after_replay([with_half] {
    for (const Tensor& parameter : with_half) bevel::detail::half_copy_written(parameter);
  });
}

void Optimizer::step(const StepOptions& options) {
  const Range range("optimizer");
  std::vector<Batch> batches = collect();
  if (batches.empty()) return;
  if (bevel::detail::recording)
    register_replay(batches);
  else
    for (const Batch& batch : batches) batch.place->write_now(rates_->now);
  const bevel::detail::Factor factor = gradient_factor(batches, options.factor);
  for (Batch& batch : batches) {
    batch.factor = factor;
    update(batch);
    for (const Item* item : batch.items) {
      item->parameter.mark_changed();
      for (const Tensor& moment : item->moments) moment.mark_changed();
      if (item->average.defined()) item->average.mark_changed();
      bevel::detail::half_copy_written(item->parameter);
    }
  }
  bevel::detail::profile_mark("optimizer", "step");
}

double Optimizer::lr() const {
  return rates_->now.at(0);
}

void Optimizer::set_lr(double lr) {
  require(std::isfinite(lr) && lr >= 0, "set_lr: lr must be finite and not negative; got ", lr);
  const double first = rates_->base.at(0);
  for (std::size_t i = 0; i < rates_->now.size(); ++i) rates_->now[i] = first > 0 ? lr * (rates_->base[i] / first) : lr;
}

void Optimizer::set_max_grad_norm(double max_norm) {
  require(std::isfinite(max_norm) && max_norm >= 0, "set_max_grad_norm: max_norm must be finite and not negative; got ",
          max_norm);
  max_norm_ = max_norm;
}

Tensor Optimizer::grad_norm() const {
  return norm_place_ ? norm_place_->norm_tensor() : Tensor();
}

void Optimizer::keep_average(double decay) {
  require(decay >= 0 && decay < 1, "keep_average: the decay must lie in [0, 1); got ", decay);
  average_rest_ = 1 - decay;
}

std::vector<Tensor> Optimizer::averages() const {
  std::vector<Tensor> result;
  result.reserve(items_.size());
  for (const Item& item : items_) result.push_back(item.average.defined() ? item.average : item.parameter.detach());
  return result;
}

void Optimizer::swap_averages() {
  const NoGrad guard;
  for (const Item& item : items_) {
    if (!item.average.defined()) continue;
    const Tensor parameter = item.parameter.detach();
    const Tensor values = parameter.clone();
    item.parameter.copy_from(item.average);
    item.average.copy_from(values);
  }
}

AverageScope::~AverageScope() {
  try {
    optimizer_.swap_averages();
  } catch (const Error& error) {  // no memory for the exchange
    std::fprintf(stderr, "AverageScope: the parameters keep their averages: %s\n", error.what());
  }
}

NamedTensors Optimizer::state() const {
  fetch_counts();
  NamedTensors result;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    result.push_back({message(i, ".steps"), Tensor::from_values<std::int64_t>({}, std::vector{item.steps})});
    for (std::size_t k = 0; k < item.moments.size(); ++k)
      result.push_back({message(i, ".", moment_names_[k]), item.moments[k]});
    if (item.average.defined()) result.push_back({message(i, ".average"), item.average});
  }
  return result;
}

void Optimizer::load_state(std::span<const NamedTensor> state) {
  // Which tensors are there depends on the counts: a parameter that was never updated has no moments. What is there
  // already keeps its memory, so that a captured step goes on from the new state.
  std::map<std::string_view, const Tensor*> found;
  for (const NamedTensor& entry : state) found[entry.name] = &entry.tensor;
  std::vector<Item> loaded = items_;
  NamedTensors target;
  std::vector<Tensor> counts;
  std::vector<Tensor> zeroed;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    Item& item = loaded[i];
    counts.push_back(Tensor::zeros({}, {.dtype = i64}));
    target.push_back({message(i, ".steps"), counts.back()});
    const auto expect = [&](Tensor& kept, const char* name) {
      if (!found.contains(message(i, ".", name))) return false;
      if (!kept.defined() || kept.dtype() != item.parameter.dtype())
        kept = Tensor::empty(item.parameter.shape(), item.parameter.options());
      target.push_back({message(i, ".", name), kept});
      return true;
    };
    std::vector<Tensor> moments = item.moments;
    moments.resize(moment_names_.size());
    std::size_t there = 0;
    for (std::size_t k = 0; k < moments.size(); ++k) there += expect(moments[k], moment_names_[k]) ? 1 : 0;
    require(there == 0 || there == moments.size(), "Optimizer::load_state: some of the moments of parameter ", i,
            " are missing");
    if (there > 0)
      item.moments = std::move(moments);
    else
      zeroed.insert(zeroed.end(), item.moments.begin(), item.moments.end());
    if (!expect(item.average, "average") && item.average.defined()) item.average = {};
  }
  copy_matching("Optimizer::load_state", target, state);
  for (const Tensor& moment : zeroed) moment.copy_from(Tensor::zeros(moment.shape(), moment.options()));
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    loaded[i].steps = static_cast<std::int64_t>(counts[i].item());
    if (loaded[i].place) loaded[i].place->set_progress(i, progress(loaded[i].group, loaded[i].steps));
  }
  items_ = std::move(loaded);
}

}  // namespace bevel::optim
