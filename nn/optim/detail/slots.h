// From the items of an optimiser to the slots of an update.
#pragma once

#include <bevel/core/half_copy.h>
#include <bevel/nn/optim/detail/place.h>

#include <vector>

namespace bevel::optim::detail {

template <class Rule, class Item>
Slot<Rule> make_slot(const Item& item, const Place& place, const Rule& rule) {
  using T = typename Rule::value;
  Slot<Rule> slot;
  slot.parameter = item.parameter.template data<T>();
  slot.gradient = item.parameter.grad().template data<T>();
  for (std::size_t i = 0; i < item.moments.size(); ++i) slot.moments[i] = item.moments[i].template data<T>();
  if (item.average.defined()) slot.average = item.average.template data<T>();
  const Tensor half = bevel::detail::half_copy_to_write(item.parameter);
  if (half.defined()) {
    slot.half = half.raw();
    slot.half_is_bf16 = half.dtype() == bf16;
  }
  slot.progress = place.progress(item.index);
  slot.rate = place.rate(item.group);
  slot.size = item.parameter.numel();
  slot.rule = rule;
  return slot;
}

// rule.operator()<T>(group) gives the rule of a group.
template <class Batch, class MakeRule>
void run(const Batch& batch, const char* function, const MakeRule& rule) {
  visit_float_double(batch.dtype, function, [&]<class T>() {
    using Rule = decltype(rule.template operator()<T>(0));
    std::vector<Slot<Rule>> slots;
    slots.reserve(batch.items.size());
    for (const auto* item : batch.items)
      slots.push_back(make_slot(*item, *batch.place, rule.template operator()<T>(item->group)));
    auto& memory = sizeof(T) == sizeof(float) ? batch.place->table_f32 : batch.place->table_f64;
    const UpdateOptions options{batch.factor, batch.average_rest, batch.place->arrived()};
    on(batch.device, [&](auto backend) { update(backend, std::span<const Slot<Rule>>(slots), options, memory); });
  });
}

}  // namespace bevel::optim::detail
