// Sums over the blocks of a kernel: where they leave them, and how they are added up.
//
// Every block stores its sum in a slot of its own; the last block of each group of neighbours waits for the others',
// adds them up by index and stores the group's; the last block of all does so with the groups. No counter, no fence:
// the sum itself is what is waited for, a slot of zero bits being an empty one. Whoever reads a slot empties it again.
//
// A block waits for blocks of lower index only, which the hardware has started before it, so the wait always ends.
#pragma once

#include <bevel/core/error.h>
#include <bevel/ops/loss/detail/pass.h>
#include <bevel/ops/raw.h>

#include <cstddef>
#include <cstdint>

namespace bevel::detail {

inline constexpr int loss_threads = 512;

// All zero before the first kernel and after each one.
struct LossWorkspace {
  static constexpr int max_blocks = 1 << 16;
  static constexpr int group = 256;          // blocks whose sums the last of them adds up
  static constexpr int single_group = 2048;  // in a grid up to this, all blocks are one group
  static constexpr std::size_t bytes = (max_blocks / group + max_blocks) * sizeof(std::uint64_t);

  static_assert(bytes <= raw::loss_workspace_bytes);

  std::uint64_t* slots = nullptr;  // null where a pass sums up nothing

  LossWorkspace(const raw::OnStream& where, const LossPass& pass) {
    if (!pass.value || pass.value_each) return;
    require(where.workspace && where.workspace_bytes >= bytes, "loss: needs a workspace of ", raw::loss_workspace_bytes,
            " bytes; got ", where.workspace ? where.workspace_bytes : 0);
    slots = static_cast<std::uint64_t*>(where.workspace);
  }

#if defined(__CUDACC__)
  __device__ __forceinline__ std::uint64_t* of_group() const { return slots; }
  __device__ __forceinline__ std::uint64_t* of_block() const { return slots + max_blocks / group; }
#endif
};

#if defined(__CUDACC__)

// Sums are stored with all bits inverted, so that zero bits are none: they would be a NaN that no sum is here.
__device__ __forceinline__ void put_sum(std::uint64_t* slot, double sum) {
  const std::uint64_t bits = sum == sum ? static_cast<std::uint64_t>(__double_as_longlong(sum)) : 0x7ff8000000000000u;
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(slot), "l"(~bits) : "memory");
}

// The sum in a slot, or zero bits while there is none.
__device__ __forceinline__ std::uint64_t peek_sum(const std::uint64_t* slot) {
  std::uint64_t bits;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(slot) : "memory");
  return bits;
}
__device__ __forceinline__ double empty_slot(std::uint64_t* slot, std::uint64_t bits) {
  *slot = 0;
  return __longlong_as_double(static_cast<long long>(~bits));
}

// This thread's share of the sum over `count` slots, once all are full; empties them.
__device__ __forceinline__ double take_sums(std::uint64_t* slots, unsigned count) {
  if (count <= loss_threads) {  // the shortest way, for the smallest losses
    if (threadIdx.x >= count) return 0;
    std::uint64_t bits = 0;
    while (bits == 0) bits = peek_sum(slots + threadIdx.x);
    return empty_slot(slots + threadIdx.x, bits);
  }
  constexpr unsigned batch = 8;  // slots that are waited for at once
  double sum = 0;
  for (unsigned first = threadIdx.x; first < count; first += batch * loss_threads) {
    std::uint64_t bits[batch];
    bool is_empty = true;
    while (is_empty) {
      is_empty = false;
#pragma unroll
      for (unsigned k = 0; k < batch; ++k) {
        const unsigned i = first + k * loss_threads;
        bits[k] = i < count ? peek_sum(slots + i) : ~std::uint64_t{0};
      }
#pragma unroll
      for (unsigned k = 0; k < batch; ++k) is_empty = is_empty || bits[k] == 0;
    }
#pragma unroll
    for (unsigned k = 0; k < batch; ++k)
      if (first + k * loss_threads < count) sum += empty_slot(slots + first + k * loss_threads, bits[k]);
  }
  return sum;
}

// The block's sum, for thread 0. All threads of the block take part. `call` counts the calls of a kernel from 0.
__device__ __forceinline__ double block_sum(double mine, int call) {
  constexpr int warps = loss_threads / 32;
  __shared__ double of_threads[2][loss_threads];  // one for each call, so that none is overwritten while it is read
  double* const of_thread = of_threads[call];
  of_thread[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x >= 32) return 0;
  double of_warp[warps];
#pragma unroll
  for (int w = 0; w < warps; ++w) of_warp[w] = of_thread[w * 32 + threadIdx.x];
#pragma unroll
  for (int step = warps / 2; step > 0; step /= 2)
    for (int w = 0; w < step; ++w) of_warp[w] += of_warp[w + step];
  double sum = of_warp[0];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  return sum;
}

// Adds up `mine` over the grid and calls write(sum) in one thread of one block.
template <class Write>
__device__ __forceinline__ void grid_sum(double mine, const LossWorkspace& workspace, const Write& write) {
  const unsigned group = gridDim.x <= LossWorkspace::single_group ? LossWorkspace::single_group : LossWorkspace::group;
  const unsigned of = blockIdx.x / group;
  const unsigned first = of * group;
  const unsigned last = ::min(first + group, gridDim.x) - 1;
  if (blockIdx.x == last) mine += take_sums(workspace.of_block() + first, last - first);
  double sum = block_sum(mine, 0);
  if (blockIdx.x != last) {
    if (threadIdx.x == 0) put_sum(workspace.of_block() + blockIdx.x, sum);
    return;
  }
  if (last != gridDim.x - 1) {
    if (threadIdx.x == 0) put_sum(workspace.of_group() + of, sum);
    return;
  }
  if (of > 0) {
    const double groups = take_sums(workspace.of_group(), of);
    sum = block_sum(threadIdx.x == 0 ? sum + groups : groups, 1);
  }
  if (threadIdx.x == 0) write(sum);
}

#endif

}  // namespace bevel::detail
