#include <bevel/core/cuda/runtime.h>
#include <bevel/nn/detail/chunks.h>
#include <bevel/nn/optim/detail/update.h>

namespace bevel::optim::detail {

namespace {

using bevel::detail::Chunk;
using bevel::detail::chunk_of_block;
using bevel::detail::chunk_threads;
using bevel::detail::ChunkTable;

template <class Rule, class T>
__global__ void __launch_bounds__(chunk_threads) update_kernel(const ChunkTable<Slot<T>> table, const Rule rule) {
  const Chunk chunk = chunk_of_block(table);
  const Slot<T> slot = table.arrays[chunk.array];
  T unused = 0;
#pragma unroll 4
  for (std::int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += chunk_threads) {
    T p = slot.parameter[i];
    T m = Rule::moments > 0 ? slot.moments[0][i] : T(0);
    T v = Rule::moments > 1 ? slot.moments[1][i] : T(0);
    rule(p, slot.gradient[i], Rule::moments > 0 ? m : unused, Rule::moments > 1 ? v : unused, slot.scalars);
    slot.parameter[i] = p;
    if (Rule::moments > 0) slot.moments[0][i] = m;
    if (Rule::moments > 1) slot.moments[1][i] = v;
  }
}

}  // namespace

template <class Rule>
void update(Cuda backend, std::span<const Slot<typename Rule::value>> slots, const Rule& rule) {
  using T = typename Rule::value;
  const gpu::DeviceGuard guard(backend.device);
  bevel::detail::for_each_table(slots, [&](const ChunkTable<Slot<T>>& table, std::int64_t blocks) {
    update_kernel<<<static_cast<unsigned>(blocks), chunk_threads, 0, gpu::stream(backend)>>>(table, rule);
    gpu::check(cudaGetLastError(), "update_kernel");
  });
}

template void update(Cuda, std::span<const Slot<float>>, const PlainSgd<float>&);
template void update(Cuda, std::span<const Slot<double>>, const PlainSgd<double>&);
template void update(Cuda, std::span<const Slot<float>>, const MomentumSgd<float>&);
template void update(Cuda, std::span<const Slot<double>>, const MomentumSgd<double>&);
template void update(Cuda, std::span<const Slot<float>>, const AdamRule<float>&);
template void update(Cuda, std::span<const Slot<double>>, const AdamRule<double>&);

}  // namespace bevel::optim::detail
