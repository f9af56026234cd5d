#include "bench/plain.h"

#include <bevel/core/cuda/runtime.h>

#include <algorithm>
#include <iterator>

namespace bevel::bench {

namespace {

__device__ uint4 sink;

// Grid-stride over tiles of blockDim * Unroll packs of 16 bytes; all loads of a tile are in flight at once.
template <int Reads, bool Write, int Unroll>
__global__ void plain_kernel(PlainPass pass, std::int64_t packs) {
  const std::int64_t tile = static_cast<std::int64_t>(blockDim.x) * Unroll;
  uint4 all{0, 0, 0, 0};
  for (std::int64_t base = blockIdx.x * tile; base < packs; base += gridDim.x * tile) {
    uint4 values[Unroll][Reads];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
      const std::int64_t i = base + static_cast<std::int64_t>(u) * blockDim.x + threadIdx.x;
#pragma unroll
      for (int r = 0; r < Reads; ++r)
        values[u][r] = i < packs ? static_cast<const uint4*>(pass.reads[r])[i] : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
      uint4 sum = values[u][0];
#pragma unroll
      for (int r = 1; r < Reads; ++r) {
        sum.x ^= values[u][r].x;
        sum.y ^= values[u][r].y;
        sum.z ^= values[u][r].z;
        sum.w ^= values[u][r].w;
      }
      const std::int64_t i = base + static_cast<std::int64_t>(u) * blockDim.x + threadIdx.x;
      if constexpr (Write) {
        if (i < packs) static_cast<uint4*>(pass.write)[i] = sum;
      } else {
        all.x ^= sum.x;
        all.y ^= sum.y;
        all.z ^= sum.z;
        all.w ^= sum.w;
      }
    }
  }
  if constexpr (!Write) {
    // Keeps the loads; random numbers do not come to this.
    if ((all.x & all.y & all.z & all.w) == 0xffffffffu) sink = all;
  }
}

struct Way {
  int threads;
  int unroll;
  int blocks_per_multiprocessor;  // 0: a block for every tile
};
constexpr Way ways[] = {{256, 1, 4}, {256, 1, 8}, {512, 1, 2}, {512, 1, 4},
                        {256, 2, 4}, {256, 4, 4}, {256, 1, 0}, {256, 4, 0}};

template <int Reads, bool Write>
void launch(Cuda backend, const PlainPass& pass, const Way& way) {
  const std::int64_t packs = pass.bytes / 16;
  const std::int64_t tile = static_cast<std::int64_t>(way.threads) * way.unroll;
  const std::int64_t tiles = (packs + tile - 1) / tile;
  const std::int64_t resident =
      static_cast<std::int64_t>(gpu::multiprocessors(backend.device)) * way.blocks_per_multiprocessor;
  const auto blocks = static_cast<unsigned>(resident == 0 ? tiles : std::min(tiles, resident));
  const auto threads = static_cast<unsigned>(way.threads);
  const cudaStream_t stream = gpu::stream(backend);
  if (way.unroll == 1) plain_kernel<Reads, Write, 1><<<blocks, threads, 0, stream>>>(pass, packs);
  if (way.unroll == 2) plain_kernel<Reads, Write, 2><<<blocks, threads, 0, stream>>>(pass, packs);
  if (way.unroll == 4) plain_kernel<Reads, Write, 4><<<blocks, threads, 0, stream>>>(pass, packs);
  gpu::check(cudaGetLastError(), "plain_kernel");
}

}  // namespace

// The last way is the runtime's own copy, where the pass is one.
int plain_ways(Cuda) {
  return static_cast<int>(std::size(ways)) + 1;
}

void run_plain(Cuda backend, const PlainPass& pass, int way) {
  const bool is_copy = pass.read_count == 1 && pass.write;
  if (way == static_cast<int>(std::size(ways)) && is_copy) {
    gpu::check(cudaMemcpyAsync(pass.write, pass.reads[0], static_cast<std::size_t>(pass.bytes),
                               cudaMemcpyDeviceToDevice, gpu::stream(backend)),
               "cudaMemcpyAsync");
    return;
  }
  const Way& chosen = ways[static_cast<std::size_t>(way) % std::size(ways)];
  if (pass.read_count == 1 && pass.write) return launch<1, true>(backend, pass, chosen);
  if (pass.read_count == 1) return launch<1, false>(backend, pass, chosen);
  if (pass.read_count == 2 && pass.write) return launch<2, true>(backend, pass, chosen);
  if (pass.read_count == 2) return launch<2, false>(backend, pass, chosen);
  launch<3, true>(backend, pass, chosen);
}

}  // namespace bevel::bench
