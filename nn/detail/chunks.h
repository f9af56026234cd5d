// Tables of arrays cut into chunks: one launch works on any number of arrays.
//
// A table of a few arrays is an argument of the kernel, so nothing is uploaded; a larger one lies in device memory and
// is uploaded when it has changed.
#pragma once

#include <bevel/core/device.h>
#include <bevel/core/tensor.h>

#include <algorithm>
#include <any>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace bevel::detail {

inline constexpr int chunk_threads = 256;
inline constexpr std::int64_t chunk_size = 2048;  // elements
inline constexpr int arrays_in_arguments = 40;

// What a kernel gets, by value. Array has a member `size`, can be compared, and is copied as bytes.
template <class Array>
struct ChunkTable {
  const Array* more = nullptr;  // the arrays and their first chunks in device memory, where they are many
  const std::int64_t* more_first = nullptr;
  int count = 0;
  std::int64_t chunks = 0;
  Array arrays[arrays_in_arguments];
  std::int64_t first[arrays_in_arguments];  // chunk of each array
};

// Elements begin <= i < end of an array.
struct Chunk {
  int array;
  std::int64_t begin;
  std::int64_t end;
};

#if defined(__CUDACC__)
template <class Array>
__device__ __forceinline__ const Array* arrays_of(const ChunkTable<Array>& table) {
  return table.more ? table.more : table.arrays;
}

template <class Array>
__device__ __forceinline__ Chunk find_chunk(const ChunkTable<Array>& table, std::int64_t chunk) {
  const std::int64_t* const first = table.more ? table.more_first : table.first;
  int low = 0;
  int high = table.count - 1;
  while (low < high) {  // the last array that begins at or before this chunk
    const int middle = (low + high + 1) / 2;
    if (first[middle] <= chunk)
      low = middle;
    else
      high = middle - 1;
  }
  const std::int64_t begin = (chunk - first[low]) * chunk_size;
  const std::int64_t size = arrays_of(table)[low].size;
  return {low, begin, begin + chunk_size < size ? begin + chunk_size : size};
}

// Whether this block is the last of its launch to come here; then it sees what all others wrote before. Every thread
// calls it. `arrived` is 0 before and after the launch.
__device__ inline bool last_block(unsigned* arrived) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    if (last) *arrived = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}
#endif

// A large table in device memory, and what was uploaded last.
struct TableMemory {
  Tensor device = {};
  std::any uploaded = {};  // std::vector<Array>

  // The arrays and after them their first chunks, where they lie on the device. Uploaded if an array has changed:
  // arrays are compared member by member, since the bytes between members may hold anything.
  template <class Array>
  const unsigned char* upload(const std::vector<Array>& arrays, const std::vector<std::int64_t>& first, Device on) {
    const auto* const last = std::any_cast<std::vector<Array>>(&uploaded);
    if (!last || *last != arrays || device.device() != on || recording) {
      // A recorded launch reads its table at every replay: it gets one of its own.
      const Unrecorded now;
      const std::size_t at = arrays.size() * sizeof(Array);
      std::vector<std::uint8_t> bytes(at + first.size() * sizeof first[0]);
      std::memcpy(bytes.data(), arrays.data(), at);
      std::memcpy(bytes.data() + at, first.data(), bytes.size() - at);
      device = Tensor::from_values<std::uint8_t>({static_cast<std::int64_t>(bytes.size())}, bytes, {.device = on});
      uploaded = arrays;
    }
    keep_for_replay(device);
    return static_cast<const unsigned char*>(device.raw());
  }
};

// The table of these arrays; empty ones are left out.
template <class Array>
ChunkTable<Array> make_table(std::span<const Array> arrays, TableMemory& memory, Device device) {
  ChunkTable<Array> table;
  const auto used = std::count_if(arrays.begin(), arrays.end(), [](const Array& array) { return array.size > 0; });
  const bool fits = used <= arrays_in_arguments;
  std::vector<Array> many;
  std::vector<std::int64_t> first;
  if (!fits) {
    many.reserve(static_cast<std::size_t>(used));
    first.reserve(static_cast<std::size_t>(used));
  }
  for (const Array& array : arrays) {
    if (array.size == 0) continue;
    if (fits) {
      table.arrays[table.count] = array;
      table.first[table.count] = table.chunks;
    } else {
      many.push_back(array);
      first.push_back(table.chunks);
    }
    ++table.count;
    table.chunks += (array.size + chunk_size - 1) / chunk_size;
  }
  if (!fits) {
    const unsigned char* const data = memory.upload(many, first, device);
    table.more = reinterpret_cast<const Array*>(data);
    table.more_first = reinterpret_cast<const std::int64_t*>(data + many.size() * sizeof(Array));
  }
  return table;
}

}  // namespace bevel::detail
