#include <bevel/core/cuda/backend.h>
#include <bevel/nn/optim/detail/place.h>

#include <algorithm>
#include <limits>

namespace bevel::optim::detail {

Place::Place(Device device, std::size_t items, std::size_t groups)
    : device_(device), progress_(items), uploaded_(groups, std::numeric_limits<double>::quiet_NaN()) {
  const bevel::detail::Unrecorded now;
  const auto bytes = static_cast<std::int64_t>(items * sizeof(Progress));
  memory_ = Tensor::zeros({bytes}, {.dtype = u8, .device = device});
  rates_ = Tensor::zeros({static_cast<std::int64_t>(groups)}, {.dtype = f64, .device = device});
  numbers_ = Tensor::zeros({3}, {.dtype = f64, .device = device});
}

void Place::set_progress(std::size_t item, const Progress& progress) {
  progress_[item] = progress;
  to_write_.push_back(item);
}

void Place::write(const std::vector<double>& rates, bevel::detail::Transfers& transfers) {
  for (std::size_t group = 0; group < uploaded_.size(); ++group) {
    if (uploaded_[group] == rates[group]) continue;
    transfers.write(rates_.data<double>() + group, rates[group]);
    uploaded_[group] = rates[group];
  }
  for (const std::size_t item : to_write_) {
    Progress* const to = progress(item);
    transfers.write(&to->steps, progress_[item].steps);
    transfers.write(&to->a, progress_[item].a);
    transfers.write(&to->b, progress_[item].b);
  }
  to_write_.clear();
}

void Place::write_now(const std::vector<double>& rates) {
  if (to_write_.empty() && std::equal(uploaded_.begin(), uploaded_.end(), rates.begin())) return;
  bevel::detail::Transfers transfers;
  write(rates, transfers);
  if constexpr (has_cuda)
    if (device_.is_cuda()) return gpu::transfer(device_, transfers);
  for (const auto& number : transfers.numbers) std::memcpy(number.to, &number.bits, number.bytes);
}

std::vector<std::int64_t> Place::steps() const {
  const Tensor host = memory_.to(cpu);
  const auto* const progress = static_cast<const Progress*>(host.raw());
  std::vector<std::int64_t> result(progress_.size());
  std::transform(progress, progress + progress_.size(), result.begin(), [](const Progress& p) { return p.steps; });
  // What is still to be written is newer.
  for (const std::size_t item : to_write_) result[item] = progress_[item].steps;
  return result;
}

Tensor Place::norm_tensor() const {
  return numbers_.view({}, 1).clone();
}

}  // namespace bevel::optim::detail
