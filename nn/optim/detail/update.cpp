#include <bevel/core/parallel.h>
#include <bevel/nn/optim/detail/update.h>

namespace bevel::optim::detail {

namespace {

constexpr std::int64_t grain = 16384;

template <class Rule>
void update_range(const Slot<Rule>& slot, const typename Rule::Numbers& numbers, typename Rule::value factor,
                  std::int64_t begin, std::int64_t end) {
  using T = typename Rule::value;
  const Rule rule = slot.rule;  // copies of its own, which no store can alias
  const typename Rule::Numbers n = numbers;
  T* __restrict p = slot.parameter;
  const T* __restrict g = slot.gradient;
  T* __restrict m = slot.moments[0];
  T* __restrict v = slot.moments[1];
  T unused = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    if constexpr (Rule::moments == 0)
      rule(n, p[i], g[i] * factor, unused, unused);
    else if constexpr (Rule::moments == 1)
      rule(n, p[i], g[i] * factor, m[i], unused);
    else
      rule(n, p[i], g[i] * factor, m[i], v[i]);
  }
}

template <class Half, class T>
void round_range(const T* from, Half* to, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) to[i] = Half(static_cast<float>(from[i]));
}

}  // namespace

template <class Rule>
void update(Cpu, std::span<const Slot<Rule>> slots, const UpdateOptions& options, bevel::detail::TableMemory&) {
  using T = typename Rule::value;
  const double factor = options.factor.value();
  if (factor == 0) return;
  const T rest = static_cast<T>(options.average_rest);
  for (const Slot<Rule>& slot : slots) {
    const typename Rule::Numbers numbers(slot.rule, *slot.rate, *slot.progress);
    const bool first = slot.progress->steps == 0;
    parallel_ranges(slot.size, grain, [&](std::int64_t begin, std::int64_t end) {
      update_range(slot, numbers, static_cast<T>(factor), begin, end);
      if (slot.average)
        for (std::int64_t i = begin; i < end; ++i)
          slot.average[i] = averaged(slot.average[i], slot.parameter[i], rest, first);
      if (slot.half && slot.half_is_bf16)
        round_range(slot.parameter, static_cast<bfloat16*>(slot.half), begin, end);
      else if (slot.half)
        round_range(slot.parameter, static_cast<float16*>(slot.half), begin, end);
    });
    *slot.progress = slot.rule.after(slot.progress->steps + 1);
  }
}

using bevel::detail::TableMemory;
template void update(Cpu, std::span<const Slot<PlainSgd<float>>>, const UpdateOptions&, TableMemory&);
template void update(Cpu, std::span<const Slot<PlainSgd<double>>>, const UpdateOptions&, TableMemory&);
template void update(Cpu, std::span<const Slot<MomentumSgd<float>>>, const UpdateOptions&, TableMemory&);
template void update(Cpu, std::span<const Slot<MomentumSgd<double>>>, const UpdateOptions&, TableMemory&);
template void update(Cpu, std::span<const Slot<AdamRule<float>>>, const UpdateOptions&, TableMemory&);
template void update(Cpu, std::span<const Slot<AdamRule<double>>>, const UpdateOptions&, TableMemory&);
template void update(Cpu, std::span<const Slot<LionRule<float>>>, const UpdateOptions&, TableMemory&);
template void update(Cpu, std::span<const Slot<LionRule<double>>>, const UpdateOptions&, TableMemory&);

}  // namespace bevel::optim::detail
