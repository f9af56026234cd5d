#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/kernel/strided.h>
#include <bevel/ops/kernel/width.h>
#include <bevel/core/cuda/launch.cuh>

#include <algorithm>

namespace bevel {

namespace {

constexpr int copy_threads = 256;
constexpr int tile = 32;
constexpr int tile_rows = 8;

// One element a thread; Index is 32 bits wide wherever that is enough, since the divisions dominate.
template <class T, class Index>
__global__ void __launch_bounds__(copy_threads)
    copy_elements(StridedCopy copy, std::int64_t numel, const T* from, T* to) {
  gpu::begin_kernel();
  const std::int64_t step = std::int64_t{gridDim.x} * copy_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * copy_threads + threadIdx.x; i < numel; i += step) {
    Index rest = static_cast<Index>(i);
    std::int64_t from_offset = 0;
    std::int64_t to_offset = 0;
#pragma unroll
    for (int axis = Shape::max_rank - 1; axis >= 0; --axis) {
      if (axis >= copy.rank) continue;
      const Index size = static_cast<Index>(copy.size[axis]);
      const Index quotient = axis > 0 ? rest / size : 0;
      const auto position = static_cast<std::int64_t>(rest - quotient * size);
      rest = quotient;
      from_offset += position * copy.from_stride[axis];
      to_offset += position * copy.to_stride[axis];
    }
    to[to_offset] = from[from_offset];
  }
}

// Transposes the plane of the last two axes through shared memory, a tile a block, for every place of the others.
template <class T>
__global__ void __launch_bounds__(tile* tile_rows)
    copy_transposed(StridedCopy copy, std::int64_t tiles, const T* from, T* to) {
  gpu::begin_kernel();
  __shared__ T shared[tile][tile + 1];
  const int a_axis = copy.rank - 2;
  const std::int64_t a_size = copy.size[a_axis];
  const std::int64_t b_size = copy.size[a_axis + 1];
  const std::int64_t from_b = copy.from_stride[a_axis + 1];
  const std::int64_t to_a = copy.to_stride[a_axis];
  const std::int64_t a_tiles = (a_size + tile - 1) / tile;
  const std::int64_t b_tiles = (b_size + tile - 1) / tile;
  for (std::int64_t unit = blockIdx.x; unit < tiles; unit += gridDim.x) {
    const std::int64_t a0 = unit % a_tiles * tile;
    const std::int64_t b0 = unit / a_tiles % b_tiles * tile;
    std::int64_t rest = unit / a_tiles / b_tiles;
    std::int64_t from_offset = 0;
    std::int64_t to_offset = 0;
    for (int axis = a_axis - 1; axis >= 0; --axis) {
      const std::int64_t position = rest % copy.size[axis];
      rest /= copy.size[axis];
      from_offset += position * copy.from_stride[axis];
      to_offset += position * copy.to_stride[axis];
    }
    for (int row = threadIdx.y; row < tile; row += tile_rows) {
      const std::int64_t a = a0 + threadIdx.x;
      const std::int64_t b = b0 + row;
      if (a < a_size && b < b_size) shared[row][threadIdx.x] = from[from_offset + a + b * from_b];
    }
    __syncthreads();
    for (int row = threadIdx.y; row < tile; row += tile_rows) {
      const std::int64_t a = a0 + row;
      const std::int64_t b = b0 + threadIdx.x;
      if (a < a_size && b < b_size) to[to_offset + a * to_a + b] = shared[threadIdx.x][row];
    }
    __syncthreads();
  }
}

template <class T>
void launch(Cuda backend, const StridedCopy& copy, const T* from, T* to) {
  const gpu::DeviceGuard guard(backend.device);
  const cudaStream_t stream = gpu::stream(backend);
  constexpr std::int64_t most_blocks = 1 << 30;
  const std::int64_t numel = copy.numel();
  const int a_axis = copy.rank - 2;
  const std::int64_t a_size = copy.size[a_axis];
  const std::int64_t b_size = copy.size[a_axis + 1];
  if (copy.from_stride[a_axis] == 1 && copy.to_stride[a_axis + 1] == 1 && copy.from_stride[a_axis + 1] != 1 &&
      a_size >= 8 && b_size >= 8) {
    const std::int64_t tiles = numel / (a_size * b_size) * ((a_size + tile - 1) / tile) * ((b_size + tile - 1) / tile);
    const auto blocks = static_cast<unsigned>(std::min(tiles, most_blocks));
    return gpu::launch(copy_transposed<T>, {.blocks = blocks, .threads = dim3(tile, tile_rows), .stream = stream},
                       "copy_transposed", copy, tiles, from, to);
  }
  const auto blocks = static_cast<unsigned>(std::min((numel + copy_threads - 1) / copy_threads, most_blocks));
  const bool small = numel < (std::int64_t{1} << 31);
  gpu::launch(small ? copy_elements<T, std::uint32_t> : copy_elements<T, std::uint64_t>,
              {.blocks = blocks, .threads = copy_threads, .stream = stream}, "copy_elements", copy, numel, from, to);
}

}  // namespace

void copy_strided(Cuda backend, const StridedCopy& copy, const void* from, void* to, std::int64_t element_bytes) {
  if (copy.numel() == 0) return;
  kernel::visit_width(element_bytes,
                      [&]<class T>(T) { launch(backend, copy, static_cast<const T*>(from), static_cast<T*>(to)); });
}

}  // namespace bevel
