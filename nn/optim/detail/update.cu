#include <bevel/core/cuda/runtime.h>
#include <bevel/nn/optim/detail/update.h>
#include <bevel/ops/kernel/pack.h>
#include <bevel/core/cuda/launch.cuh>

namespace bevel::optim::detail {

namespace {

using bevel::detail::Chunk;
using bevel::detail::chunk_size;
using bevel::detail::chunk_threads;
using bevel::detail::ChunkTable;
using bevel::detail::TableMemory;
using kernel::Pack;

template <class Rule>
struct Numbers {
  typename Rule::Numbers rule;
  typename Rule::value factor;
  typename Rule::value average_rest;
  bool first;
};

template <class Half, int N, class T>
__device__ __forceinline__ void store_half(void* half, std::int64_t i, const Pack<T, N>& p) {
  Pack<Half, N> rounded;
#pragma unroll
  for (int lane = 0; lane < N; ++lane) rounded.lane[lane] = Half(static_cast<float>(p.lane[lane]));
  *reinterpret_cast<Pack<Half, N>*>(static_cast<Half*>(half) + i) = rounded;
}

// N neighbouring elements, moved as packs.
template <int N, class Rule>
__device__ __forceinline__ void update_pack(const Slot<Rule>& slot, const Numbers<Rule>& n, std::int64_t i) {
  using T = typename Rule::value;
  using P = Pack<T, N>;
  const auto at = [i](T* data) -> P& { return *reinterpret_cast<P*>(data + i); };
  P p = at(slot.parameter);
  const P g = *reinterpret_cast<const P*>(slot.gradient + i);
  P m{};
  P v{};
  if constexpr (Rule::moments > 0) m = at(slot.moments[0]);
  if constexpr (Rule::moments > 1) v = at(slot.moments[1]);
#pragma unroll
  for (int lane = 0; lane < N; ++lane)
    slot.rule(n.rule, p.lane[lane], g.lane[lane] * n.factor, m.lane[lane], v.lane[lane]);
  at(slot.parameter) = p;
  if constexpr (Rule::moments > 0) at(slot.moments[0]) = m;
  if constexpr (Rule::moments > 1) at(slot.moments[1]) = v;
  if (slot.average) {
    P average = at(slot.average);
#pragma unroll
    for (int lane = 0; lane < N; ++lane)
      average.lane[lane] = averaged(average.lane[lane], p.lane[lane], n.average_rest, n.first);
    at(slot.average) = average;
  }
  if (slot.half && slot.half_is_bf16)
    store_half<bfloat16>(slot.half, i, p);
  else if (slot.half)
    store_half<float16>(slot.half, i, p);
}

template <class Rule>
__device__ bool packable(const Slot<Rule>& slot) {
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(slot.parameter);
  bits |= reinterpret_cast<std::uintptr_t>(slot.gradient);
  for (int k = 0; k < Rule::moments; ++k) bits |= reinterpret_cast<std::uintptr_t>(slot.moments[k]);
  bits |= reinterpret_cast<std::uintptr_t>(slot.average);
  bits |= reinterpret_cast<std::uintptr_t>(slot.half);
  return bits % 16 == 0;
}

// Elements begin <= i < end of a parameter. The slot is the thread's own copy, which no store can change.
template <class Rule>
__device__ __forceinline__ void update_range(const Slot<Rule> slot, std::int64_t begin, std::int64_t end,
                                             const UpdateOptions& options, double factor) {
  using T = typename Rule::value;
  constexpr int lanes = 16 / static_cast<int>(sizeof(T));
  const Numbers<Rule> numbers{typename Rule::Numbers(slot.rule, *slot.rate, *slot.progress), static_cast<T>(factor),
                              static_cast<T>(options.average_rest), slot.progress->steps == 0};
  if (packable(slot)) {
    const std::int64_t in_packs = begin + (end - begin) / lanes * lanes;
#pragma unroll 2
    for (std::int64_t i = begin + threadIdx.x * lanes; i < in_packs; i += chunk_threads * lanes)
      update_pack<lanes>(slot, numbers, i);
    begin = in_packs;
  }
  for (std::int64_t i = begin + threadIdx.x; i < end; i += chunk_threads) update_pack<1>(slot, numbers, i);
}

template <class Rule>
__global__ void __launch_bounds__(chunk_threads)
    update_kernel(const __grid_constant__ ChunkTable<Slot<Rule>> table, const UpdateOptions options) {
  gpu::begin_kernel();
  const double factor = options.factor.value();
  if (factor == 0) return;
  const Slot<Rule>* const slots = bevel::detail::arrays_of(table);
  // A block takes a run of neighbouring chunks, so that it looks up an array seldom.
  const std::int64_t run = (table.chunks + gridDim.x - 1) / gridDim.x;
  const std::int64_t stop = min((blockIdx.x + 1) * run, table.chunks);
  for (std::int64_t i = blockIdx.x * run; i < stop;) {
    const Chunk chunk = bevel::detail::find_chunk(table, i);
    const std::int64_t size = slots[chunk.array].size;
    const std::int64_t left = (size - chunk.begin + chunk_size - 1) / chunk_size;  // chunks of this array
    const std::int64_t taken = min(left, stop - i);
    update_range(slots[chunk.array], chunk.begin, min(size, chunk.begin + taken * chunk_size), options, factor);
    i += taken;
  }
  // Nobody reads the progress any more when the last block is here.
  if (!bevel::detail::last_block(options.arrived)) return;
  for (int i = static_cast<int>(threadIdx.x); i < table.count; i += chunk_threads)
    *slots[i].progress = slots[i].rule.after(slots[i].progress->steps + 1);
}

// Blocks for so many chunks: at least a few for each multiprocessor, and runs short enough that no multiprocessor works
// long after the others.
unsigned blocks_for(Cuda backend, std::int64_t chunks) {
  constexpr std::int64_t chunks_in_run = 4;
  const std::int64_t few = std::int64_t{8} * gpu::multiprocessors(backend.device);
  const std::int64_t wanted = std::max(few, (chunks + chunks_in_run - 1) / chunks_in_run);
  return static_cast<unsigned>(std::min({chunks, wanted, std::int64_t{1} << 30}));
}

}  // namespace

template <class Rule>
void update(Cuda backend, std::span<const Slot<Rule>> slots, const UpdateOptions& options, TableMemory& memory) {
  const auto table = bevel::detail::make_table(slots, memory, backend.device);
  if (table.count == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  gpu::launch(update_kernel<Rule>,
              {.blocks = blocks_for(backend, table.chunks), .threads = chunk_threads, .stream = gpu::stream(backend)},
              "update_kernel", table, options);
}

template void update(Cuda, std::span<const Slot<PlainSgd<float>>>, const UpdateOptions&, TableMemory&);
template void update(Cuda, std::span<const Slot<PlainSgd<double>>>, const UpdateOptions&, TableMemory&);
template void update(Cuda, std::span<const Slot<MomentumSgd<float>>>, const UpdateOptions&, TableMemory&);
template void update(Cuda, std::span<const Slot<MomentumSgd<double>>>, const UpdateOptions&, TableMemory&);
template void update(Cuda, std::span<const Slot<AdamRule<float>>>, const UpdateOptions&, TableMemory&);
template void update(Cuda, std::span<const Slot<AdamRule<double>>>, const UpdateOptions&, TableMemory&);
template void update(Cuda, std::span<const Slot<LionRule<float>>>, const UpdateOptions&, TableMemory&);
template void update(Cuda, std::span<const Slot<LionRule<double>>>, const UpdateOptions&, TableMemory&);

}  // namespace bevel::optim::detail
