// Blocks that go down the columns of a table, and merge what they find.
#pragma once

#include <bevel/core/hostdevice.h>

#include <algorithm>
#include <cstdint>

namespace bevel::evo {

// Blocks that go down columns: few channels each, so that there are many blocks, 32 bytes of f32 side by side. They
// have (column_lanes, rows) threads, rows being a power of two between 4 and column_rows, so that warps are full.
inline constexpr int column_lanes = 8, least_column_rows = 4, column_rows = 64;
inline constexpr int column_threads = column_lanes * column_rows;

// Sums over the column of a thread; every thread of the block has the result.
template <int K>
__device__ void column_sum(double (&value)[K]) {
  static_assert(K <= least_column_rows);
  __shared__ double part[column_rows / 4][K][column_lanes];
  const int row = static_cast<int>(threadIdx.y), warps = static_cast<int>(blockDim.y) / 4;
  for (int step = column_lanes; step < 32; step *= 2)
#pragma unroll
    for (int k = 0; k < K; ++k) value[k] += __shfl_xor_sync(~0u, value[k], step);
  if (row % 4 == 0)
#pragma unroll
    for (int k = 0; k < K; ++k) part[row / 4][k][threadIdx.x] = value[k];
  __syncthreads();
  if (row < K) {
    double total = part[0][row][threadIdx.x];
#pragma unroll 4
    for (int w = 1; w < warps; ++w) total += part[w][row][threadIdx.x];
    part[0][row][threadIdx.x] = total;  // read by this thread alone so far
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < K; ++k) value[k] = part[0][k][threadIdx.x];
}

// Merges the values of a column of threads of a (column_lanes, column_rows) block; row 0 has the result.
template <class Merge, int K>
__device__ void column_merge(double (&value)[K]) {
  __shared__ double shared[K][column_rows / 2][column_lanes];
  const int row = static_cast<int>(threadIdx.y);
  for (int step = column_rows / 2; step > 0; step /= 2) {
    if (row >= step && row < 2 * step)
      for (int k = 0; k < K; ++k) shared[k][row - step][threadIdx.x] = value[k];
    __syncthreads();
    if (row < step) {
      double other[K];
      for (int k = 0; k < K; ++k) other[k] = shared[k][row][threadIdx.x];
      Merge::merge(value, other);
    }
    __syncthreads();
  }
}

// Rows of threads for tables of so many rows.
inline int rows_of_columns(std::int64_t table_rows) {
  int rows = least_column_rows;
  while (rows < column_rows && rows < table_rows) rows *= 2;
  return rows;
}

}  // namespace bevel::evo
