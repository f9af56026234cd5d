// Blocks of a cluster tell each other numbers. Compiled for sm_90 and later, used nowhere else.
#pragma once

#include <bevel/ops/evonorm/detail/async.cuh>

#include <cstdint>

namespace bevel::evo {

__device__ inline unsigned cluster_rank() {
#if __CUDA_ARCH__ >= 900
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return 0;
#endif
}

// Every block of the cluster has opened its mailbox. A thread waits once.
__device__ inline void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Counts the bytes that have arrived in a block's shared memory, in its shared memory. Nothing else orders the numbers
// sent: a barrier of the cluster with release semantics would wait for all stores to device memory as well.
struct Mailbox {
  std::uint64_t barrier;

  // By all threads of the block; bytes: what will arrive. Nothing may be sent before cluster_wait().
  __device__ void open(int bytes) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      const unsigned address = shared_address(&barrier);
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes) : "memory");
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
  }

  // value to *local of the block `rank`.
  template <int K>
  __device__ void send(float* local, unsigned rank, const float (&value)[K]) {
#if __CUDA_ARCH__ >= 900
    unsigned to = shared_address(local), box = shared_address(&barrier);
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(to), "r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(box) : "r"(box), "r"(rank));
    static_assert(K == 1 || K == 4);
    if constexpr (K == 1)
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to), "f"(value[0]),
                   "r"(box)
                   : "memory");
    else
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
          "f"(value[0]), "f"(value[1]), "f"(value[2]), "f"(value[3]), "r"(box)
          : "memory");
#endif
  }

  // Until all has arrived.
  __device__ void wait() {
#if __CUDA_ARCH__ >= 900
    const unsigned address = shared_address(&barrier);
    unsigned done = 0;
    while (done == 0)
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(address)
          : "memory");
#endif
  }
};

}  // namespace bevel::evo
