// From tensors to the slots of an update.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/nn/optim/detail/update.h>

#include <vector>

namespace bevel::optim::detail {

template <class T>
Slot<T> make_slot(const Tensor& parameter, const std::vector<Tensor>& moments) {
  Slot<T> slot;
  slot.parameter = parameter.data<T>();
  slot.gradient = parameter.grad().data<T>();
  for (std::size_t i = 0; i < moments.size(); ++i) slot.moments[i] = moments[i].data<T>();
  slot.size = parameter.numel();
  return slot;
}

template <class T, class Rule>
void run(Device device, const std::vector<Slot<T>>& slots, const Rule& rule) {
  on(device, [&](auto backend) { update(backend, std::span<const Slot<T>>(slots), rule); });
}

}  // namespace bevel::optim::detail
