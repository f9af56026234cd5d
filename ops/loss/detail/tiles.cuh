// How the kernels of the losses cut their work into blocks.
//
// A block works on a tile: `loss_threads` threads, a few packs of 16 bytes (or rows) each, all of which are read before
// the first is computed. Blocks for tiles side by side use the memory better than a fixed grid that strides over it,
// whose blocks drift apart. Values to be summed are added up within a pack in the compute type and beyond it in f64, in
// an order fixed by the size alone: thread, block, blocks by index (workspace.cuh).
#pragma once

#include <bevel/core/cuda/launch.cuh>
#include <bevel/ops/loss/detail/packs.cuh>
#include <bevel/ops/loss/detail/workspace.cuh>

#include <algorithm>
#include <cstdint>

namespace bevel::detail {

inline constexpr int loss_in_flight = 4;  // packs that a thread reads at once
// Blocks that a multiprocessor shall hold: the registers of a thread follow from it, 64 or, for much arithmetic, 128.
template <class F, class C>
inline constexpr int loss_blocks_per_multiprocessor = sizeof(C) == 8 || (RowFormula<F> && !HasRowDerivative<F>) ? 1 : 2;

// How `items` (packs, or rows) are cut into tiles of `loss_threads` times `rounds`, one for each block.
struct LossTiles {
  unsigned blocks;
  unsigned rounds;  // items of a thread

  explicit LossTiles(std::int64_t items) {
    constexpr std::int64_t few = 1 << 17;  // up to here all blocks run at once, so the more the better
    constexpr std::int64_t most = std::int64_t{LossWorkspace::max_blocks} * loss_threads * loss_in_flight;
    rounds = items <= few ? 1u : static_cast<unsigned>((items + most - 1) / most) * loss_in_flight;
    const std::int64_t tile = std::int64_t{loss_threads} * rounds;
    blocks = static_cast<unsigned>(std::max<std::int64_t>(1, (items + tile - 1) / tile));
  }
};

// Brings the first bytes of a block's tile into the second-level cache while the kernel before this one still runs.
// That touches no memory as the program sees it, so it may come before the wait: what is changed meanwhile changes
// there, too.
__device__ __forceinline__ void prefetch_tile(const void* input, const void* target, std::int64_t offset,
                                              std::int64_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr unsigned first_blocks = 512;  // those that may be waiting
  if (threadIdx.x != 0 || blockIdx.x >= first_blocks || bytes < 16) return;
  const auto prefetch = [&](const void* data) {
    const std::uintptr_t address =
        (reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(offset)) & ~std::uintptr_t{15};
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(static_cast<unsigned>(bytes) & ~15u));
  };
  prefetch(input);
  prefetch(target);
#endif
}

// gpu::begin_kernel in two parts. A kernel of tiles lets its successor come only after the last tile has been read: the
// successor's blocks, and what they prefetch, would else be in the way of that.
__device__ __forceinline__ void wait_for_predecessor() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void release_successor() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Stands between the loads of a tile and its arithmetic: keeps the compiler from moving loads down to their uses.
__device__ __forceinline__ void all_are_read() {
  asm volatile("" ::: "memory");
}

// Adds up `sum` over the grid and writes factor times the total to the pass's value.
template <class C>
__device__ __forceinline__ void reduce_loss(double sum, const LossWorkspace& workspace, const LossUniform<C>& uniform,
                                            const LossPass& pass) {
  grid_sum(sum, workspace, [&](double total) {
    reduced_elements<C>(pass).store(pass.value, 0, uniform.is_zero ? C(0) : static_cast<C>(total * uniform.factor));
  });
}

// The blocks of a kernel that strides over `items` by its grid.
inline unsigned loss_stride_blocks(std::int64_t items) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((items + loss_threads - 1) / loss_threads, 1, 1024));
}

}  // namespace bevel::detail
