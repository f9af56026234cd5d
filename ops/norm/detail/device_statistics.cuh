// The small kernels between the passes over the pictures, on CUDA: from the maps' moments and sums to coefficients and
// the gradients of parameters. They compute in double, in a fixed order. Null pointers: weight and bias are 1 and 0,
// running statistics are not kept, gradients are not wanted.
#pragma once

#include <bevel/ops/evonorm/detail/device_statistics.cuh>

namespace bevel::norm {

// What forward keeps: rows of coefficients by table and channel (a, pivot, b), and for each set 1 / deviation and the
// rest of its mean, mean = pivot + rest.
template <class A>
struct Kept {
  A* rows;
  std::int64_t row;  // elements: tables * channels
  A* rstd;
  A* rest;
};

template <class A>
__device__ inline double value_or(const A* values, std::int64_t i, double otherwise) {
  return values != nullptr ? static_cast<double>(values[i]) : otherwise;
}

template <class A>
__device__ inline void keep_set(const Kept<A>& kept, std::int64_t set, double mean, double rstd) {
  A pivot;
  evo::split_value(mean, pivot, kept.rest[set]);
  kept.rstd[set] = static_cast<A>(rstd);
}

template <class A>
__device__ inline void keep_channel(const Kept<A>& kept, std::int64_t at, double mean, double rstd, double weight,
                                    double bias) {
  A pivot, rest;
  evo::split_value(mean, pivot, rest);
  kept.rows[at] = static_cast<A>(weight * rstd);
  kept.rows[kept.row + at] = pivot;
  kept.rows[2 * kept.row + at] = static_cast<A>(bias - weight * rstd * static_cast<double>(rest));
}

// Sums of a channel, or over a set with `a` as weights: of du, and of du * (x - mean) / deviation.
struct Sums {
  double du, normal;
};

// One row of Backward's coefficients; `set` holds the sums over the set, with weights.
template <class A>
__device__ inline void write_slopes(const Kept<A>& kept, std::int64_t set, std::int64_t at, const Sums& sums,
                                    double elements, bool fixed, A* table) {
  const double rstd = static_cast<double>(kept.rstd[set]), rest = static_cast<double>(kept.rest[set]);
  const double slope = fixed ? 0 : -rstd * sums.normal / elements;
  const double offset = fixed ? 0 : -sums.du / elements - slope * rest;
#pragma unroll
  for (int k = 0; k < 3; ++k) table[k * kept.row + at] = kept.rows[k * kept.row + at];
  table[3 * kept.row + at] = static_cast<A>(slope);
  table[4 * kept.row + at] = static_cast<A>(offset);
}

// --- batch: a set is a channel ---

template <class A>
__global__ void __launch_bounds__(evo::column_lanes* evo::column_rows)
    batch_statistics_kernel(evo::Sizes s, const double* moments, const A* weight, const A* bias, A* running_mean,
                            A* running_var, Kept<A> kept) {
  gpu::begin_kernel();
  const std::int64_t c = std::int64_t{blockIdx.x} * evo::column_lanes + threadIdx.x;
  double value[3] = {};
  if (s.training) {
    if (c < s.channels)
#pragma unroll 4
      for (std::int64_t j = threadIdx.y; j < s.samples * s.splits; j += evo::column_rows) {
        double other[3];
        evo::load_moments(s, moments, j / s.splits, j % s.splits, c, other);
        evo::Chan::merge(value, other);
      }
    evo::column_merge<evo::Chan>(value);
  }
  if (c >= s.channels || threadIdx.y != 0) return;
  const double count = value[0];
  const double mean = s.training ? value[1] : static_cast<double>(running_mean[c]);
  const double variance = s.training ? value[2] / count : static_cast<double>(running_var[c]);
  if (s.training && running_mean != nullptr) {
    const double old_mean = static_cast<double>(running_mean[c]), old_var = static_cast<double>(running_var[c]);
    running_mean[c] = static_cast<A>(old_mean + s.momentum * (mean - old_mean));
    running_var[c] = static_cast<A>(old_var + s.momentum * (variance * (count / (count - 1)) - old_var));
  }
  const double rstd = 1 / sqrt(variance + s.eps);
  keep_set(kept, c, mean, rstd);
  keep_channel(kept, c, mean, rstd, value_or(weight, c, 1), value_or(bias, c, 0));
}

// From sums of du and du * (x - pivot) over runs: the gradients of the parameters, and rows of Backward's coefficients
// if there is a table.
template <class A>
__global__ void __launch_bounds__(evo::column_lanes* evo::column_rows)
    batch_slopes_kernel(evo::Sizes s, Kept<A> kept, const A* partial, A* dweight, A* dbias, A* table) {
  gpu::begin_kernel();
  const std::int64_t c = std::int64_t{blockIdx.x} * evo::column_lanes + threadIdx.x;
  const std::int64_t runs = s.samples * s.splits;
  double sum[2] = {};
  if (c < s.channels)
#pragma unroll 4
    for (std::int64_t j = threadIdx.y; j < runs; j += evo::column_rows)
#pragma unroll
      for (int k = 0; k < 2; ++k) sum[k] += static_cast<double>(partial[(k * runs + j) * s.channels + c]);
  evo::column_merge<evo::Add>(sum);
  if (c >= s.channels || threadIdx.y != 0) return;
  const double rest = static_cast<double>(kept.rest[c]), rstd = static_cast<double>(kept.rstd[c]);
  const Sums sums{sum[0], rstd * (sum[1] - rest * sum[0])};
  if (dweight != nullptr) dweight[c] = static_cast<A>(sums.normal);
  if (dbias != nullptr) dbias[c] = static_cast<A>(sums.du);
  if (table == nullptr) return;
  const double a = static_cast<double>(kept.rows[c]);
  write_slopes(kept, c, c, {a * sums.du, a * sums.normal}, static_cast<double>(s.samples * s.pixels), !s.training,
               table);
}

// --- group: a set is a group of a sample, for which there is a warp ---

template <class A>
__global__ void group_statistics_kernel(evo::Sizes s, const double* moments, const A* weight, const A* bias,
                                        Kept<A> kept) {
  gpu::begin_kernel();
  const std::int64_t set = evo::thread_index() / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (set >= s.samples * s.groups) return;
  const std::int64_t n = set / s.groups, width = s.channels / s.groups, first = set % s.groups * width;
  double value[3] = {};
  for (std::int64_t j = lane; j < width * s.splits; j += 32) {
    double other[3];
    evo::load_moments(s, moments, n, j / width, first + j % width, other);
    evo::Chan::merge(value, other);
  }
  evo::warp_merge<evo::Chan>(value);
  const double mean = __shfl_sync(~0u, value[1], 0);
  const double rstd = 1 / sqrt(__shfl_sync(~0u, value[2] / value[0], 0) + s.eps);
  if (lane == 0) keep_set(kept, set, mean, rstd);
  for (std::int64_t c = first + lane; c < first + width; c += 32)
    keep_channel(kept, n * s.channels + c, mean, rstd, value_or(weight, c, 1), value_or(bias, c, 0));
}

// From sums of du and du * (x - pivot) over runs: shares[0, 1][n][c], the sample's shares in the gradients of weight
// and bias, and rows of Backward's coefficients if there is a table.
template <class A>
__global__ void group_slopes_kernel(evo::Sizes s, Kept<A> kept, const A* partial, A* shares, A* table) {
  gpu::begin_kernel();
  const std::int64_t set = evo::thread_index() / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (set >= s.samples * s.groups) return;
  const std::int64_t n = set / s.groups, width = s.channels / s.groups, first = set % s.groups * width;
  const double rest = static_cast<double>(kept.rest[set]), rstd = static_cast<double>(kept.rstd[set]);
  double total[2] = {};
  for (std::int64_t c = first + lane; c < first + width; c += 32) {
    double sum[2] = {};
    for (std::int64_t run = 0; run < s.splits; ++run)
#pragma unroll
      for (int k = 0; k < 2; ++k)
        sum[k] += static_cast<double>(partial[((k * s.samples + n) * s.splits + run) * s.channels + c]);
    const std::int64_t at = n * s.channels + c;
    const double normal = rstd * (sum[1] - rest * sum[0]), a = static_cast<double>(kept.rows[at]);
    shares[at] = static_cast<A>(normal);
    shares[s.maps() + at] = static_cast<A>(sum[0]);
    total[0] += a * sum[0];
    total[1] += a * normal;
  }
  evo::warp_merge<evo::Add>(total);
  const Sums sums{__shfl_sync(~0u, total[0], 0), __shfl_sync(~0u, total[1], 0)};
  if (table == nullptr) return;
  for (std::int64_t c = first + lane; c < first + width; c += 32)
    write_slopes(kept, set, n * s.channels + c, sums, static_cast<double>(s.pixels * width), false, table);
}

}  // namespace bevel::norm
