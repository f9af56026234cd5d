#include <bevel/core/parallel.h>
#include <bevel/nn/optim/detail/update.h>

namespace bevel::optim::detail {

namespace {

constexpr std::int64_t grain = 16384;

template <class Rule, class T>
void update_range(const Slot<T>& slot, const Rule& rule, std::int64_t begin, std::int64_t end) {
  const Rule r = rule;  // a copy of its own, which no store can alias
  const T scalars[2] = {slot.scalars[0], slot.scalars[1]};
  T* __restrict p = slot.parameter;
  const T* __restrict g = slot.gradient;
  T* __restrict m = slot.moments[0];
  T* __restrict v = slot.moments[1];
  T unused = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    if constexpr (Rule::moments == 0)
      r(p[i], g[i], unused, unused, scalars);
    else if constexpr (Rule::moments == 1)
      r(p[i], g[i], m[i], unused, scalars);
    else
      r(p[i], g[i], m[i], v[i], scalars);
  }
}

}  // namespace

template <class Rule>
void update(Cpu, std::span<const Slot<typename Rule::value>> slots, const Rule& rule) {
  for (const auto& slot : slots)
    parallel_ranges(slot.size, grain,
                    [&](std::int64_t begin, std::int64_t end) { update_range(slot, rule, begin, end); });
}

template void update(Cpu, std::span<const Slot<float>>, const PlainSgd<float>&);
template void update(Cpu, std::span<const Slot<double>>, const PlainSgd<double>&);
template void update(Cpu, std::span<const Slot<float>>, const MomentumSgd<float>&);
template void update(Cpu, std::span<const Slot<double>>, const MomentumSgd<double>&);
template void update(Cpu, std::span<const Slot<float>>, const AdamRule<float>&);
template void update(Cpu, std::span<const Slot<double>>, const AdamRule<double>&);

}  // namespace bevel::optim::detail
