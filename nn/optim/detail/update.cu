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

// N neighbouring elements of what a rule works on.
template <int N, class Rule>
struct Packs {
  using P = Pack<typename Rule::value, N>;
  P parameter, gradient;
  P moments[2];
};

template <int N, class Rule>
__device__ __forceinline__ Packs<N, Rule> load_packs(const Slot<Rule>& slot, std::int64_t i) {
  using P = typename Packs<N, Rule>::P;
  Packs<N, Rule> packs{};
  packs.parameter = *reinterpret_cast<const P*>(slot.parameter + i);
  packs.gradient = *reinterpret_cast<const P*>(slot.gradient + i);
#pragma unroll
  for (int k = 0; k < Rule::moments; ++k) packs.moments[k] = *reinterpret_cast<const P*>(slot.moments[k] + i);
  return packs;
}

template <int N, class Rule>
__device__ __forceinline__ void update_packs(const Slot<Rule>& slot, const Numbers<Rule>& n, Packs<N, Rule>& packs,
                                             std::int64_t i) {
  using P = typename Packs<N, Rule>::P;
  auto& [p, g, moments] = packs;
#pragma unroll
  for (int lane = 0; lane < N; ++lane)
    slot.rule(n.rule, p.lane[lane], g.lane[lane] * n.factor, moments[0].lane[lane], moments[1].lane[lane]);
  *reinterpret_cast<P*>(slot.parameter + i) = p;
#pragma unroll
  for (int k = 0; k < Rule::moments; ++k) *reinterpret_cast<P*>(slot.moments[k] + i) = moments[k];
  if (slot.average) {
    P& place = *reinterpret_cast<P*>(slot.average + i);
    P average = place;
#pragma unroll
    for (int lane = 0; lane < N; ++lane)
      average.lane[lane] = averaged(average.lane[lane], p.lane[lane], n.average_rest, n.first);
    place = average;
  }
  if (slot.half && slot.half_is_bf16)
    store_half<bfloat16>(slot.half, i, p);
  else if (slot.half)
    store_half<float16>(slot.half, i, p);
}

// Elements begin <= i < end, in whole packs. A thread loads its next packs before it stores those at hand: the compiler
// cannot know that no store changes what is loaded next.
template <int N, class Rule>
__device__ __forceinline__ void update_all(const Slot<Rule>& slot, const Numbers<Rule>& n, std::int64_t begin,
                                           std::int64_t end) {
  std::int64_t i = begin + threadIdx.x * N;
  if (i >= end) return;
  Packs<N, Rule> packs = load_packs<N>(slot, i);
#pragma unroll 1
  for (std::int64_t next = i + chunk_threads * N; next < end; next += chunk_threads * N) {
    const Packs<N, Rule> ahead = load_packs<N>(slot, next);
    update_packs<N>(slot, n, packs, i);
    packs = ahead;
    i = next;
  }
  update_packs<N>(slot, n, packs, i);
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
    update_all<lanes>(slot, numbers, begin, in_packs);
    begin = in_packs;
  }
  update_all<1>(slot, numbers, begin, end);
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

// Blocks for so many chunks: a few for each multiprocessor, as what a block does first (its slot, its rate, its
// progress) takes about as long as a chunk.
unsigned blocks_for(Cuda backend, std::int64_t chunks) {
  return static_cast<unsigned>(std::min(chunks, std::int64_t{8} * gpu::multiprocessors(backend.device)));
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
