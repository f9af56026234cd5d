// A table of arrays cut into chunks, small enough to be an argument of a kernel: one launch works on many arrays
// without anything being uploaded. Included by .cu files only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace bevel::detail {

inline constexpr int chunk_threads = 256;
inline constexpr std::int64_t chunk_size = 2048;  // elements of one block
inline constexpr int max_arrays = 40;             // keeps the table below the 4 KiB of arguments that any driver takes

template <class Array>
struct ChunkTable {
  Array arrays[max_arrays];
  std::int64_t first_block[max_arrays + 1];  // of each array; the last entry is the number of blocks
  int count = 0;
};

// What a block works on: elements begin <= i < end of an array.
struct Chunk {
  int array;
  std::int64_t begin;
  std::int64_t end;
};

#if defined(__CUDACC__)
template <class Array>
__device__ Chunk chunk_of_block(const ChunkTable<Array>& table) {
  const std::int64_t block = blockIdx.x;
  int low = 0;
  int high = table.count - 1;
  while (low < high) {  // the last array that begins at or before this block
    const int middle = (low + high + 1) / 2;
    if (table.first_block[middle] <= block)
      low = middle;
    else
      high = middle - 1;
  }
  const std::int64_t begin = (block - table.first_block[low]) * chunk_size;
  const std::int64_t size = table.arrays[low].size;
  return {low, begin, begin + chunk_size < size ? begin + chunk_size : size};
}
#endif

// Calls launch(table, blocks) for runs of at most max_arrays arrays. Empty arrays are left out. An array is at most
// chunk_size * (2^31 - 1) elements, and a run has no more blocks than one launch takes.
template <class Array, class F>
void for_each_table(std::span<const Array> arrays, F&& launch) {
  constexpr std::int64_t max_blocks = 0x7fffffff;
  ChunkTable<Array> table;
  std::int64_t blocks = 0;
  const auto flush = [&] {
    if (table.count > 0) launch(table, blocks);
    table.count = 0;
    blocks = 0;
  };
  for (const Array& array : arrays) {
    if (array.size == 0) continue;
    const std::int64_t needed = (array.size + chunk_size - 1) / chunk_size;
    if (table.count == max_arrays || blocks + needed > max_blocks) flush();
    table.arrays[table.count] = array;
    table.first_block[table.count] = blocks;
    blocks += needed;
    table.first_block[++table.count] = blocks;
  }
  flush();
}

}  // namespace bevel::detail
