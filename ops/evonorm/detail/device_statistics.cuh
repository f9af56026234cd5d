// The small kernels between the passes over the pictures: from sums per run to statistics, coefficients and gradients
// of the parameters. They compute in double, in a fixed order.
#pragma once

#include <bevel/core/cuda/launch.cuh>
#include <bevel/ops/evonorm/detail/columns.cuh>
#include <bevel/ops/evonorm/detail/device_sums.cuh>

namespace bevel::evo {

// What the small kernels need of a problem.
struct Sizes {
  std::int64_t samples, pixels, channels, groups;
  int splits;
  std::int64_t split_pixels;
  double eps, momentum;
  EvoNorm variant;
  bool about_zero, training, affine;

  BEVEL_HD std::int64_t maps() const { return samples * channels; }
  BEVEL_HD std::int64_t runs() const { return samples * splits; }
  __device__ double run_pixels(int run) const {
    return static_cast<double>(run < splits - 1 ? split_pixels : pixels - (splits - 1) * split_pixels);
  }
};

__device__ inline std::int64_t thread_index() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

// value = high + low, both of type A; a value that is not finite is high alone.
template <class A>
__device__ inline void split_value(double value, A& high, A& low) {
  high = static_cast<A>(value);
  low = isfinite(high) ? static_cast<A>(value - static_cast<double>(high)) : A(0);
}

__device__ inline void load_moments(const Sizes& s, const double* moments, std::int64_t sample, std::int64_t run,
                                    std::int64_t channel, double (&value)[3]) {
  const std::int64_t i = (sample * s.splits + run) * s.channels + channel;
  value[0] = s.run_pixels(static_cast<int>(run));
  value[1] = moments[i];
  value[2] = moments[s.maps() * s.splits + i];
}

// Moments of several runs, as sums of differences from a pivot, the mean of one of them, and of squares of these and of
// those within the runs. That mean cannot be so far off that doubles would feel it (see moments_kernel), and there is
// nothing to divide by on the way.
struct PivotSums {
  double pivot, sum[2] = {};

  // Run j = sample * splits + run, of a channel.
  __device__ void add(const Sizes& s, const double* moments, std::int64_t j, int run, std::int64_t channel) {
    const double* from = moments + j * s.channels + channel;
    const double difference = from[0] - pivot, weighted = s.run_pixels(run) * difference;
    sum[0] += weighted;
    sum[1] += from[s.runs() * s.channels] + weighted * difference;
  }
  __device__ double mean(double count) const { return pivot + sum[0] / count; }
  __device__ double variance(double count) const {
    const double squares = sum[1] - sum[0] * (sum[0] / count);
    return (squares < 0 ? 0 : squares) / count;  // a NaN stays one
  }
};

// --- gate: one warp a group of a sample ---

// slice[0, 1, 2][n][g] = mean in two parts, 1 / deviation. table: rows of GateForward.
template <class A>
__global__ void gate_statistics_kernel(Sizes s, const double* moments, const A* gamma, const A* beta, const A* v,
                                       A* slice, A* table) {
  gpu::begin_kernel();
  const std::int64_t warp = thread_index() / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t slices = s.samples * s.groups;
  if (warp >= slices) return;
  const std::int64_t n = warp / s.groups, g = warp % s.groups, width = s.channels / s.groups;
  const std::int64_t first = n * s.splits;
  PivotSums sums{moments[first * s.channels + g * width]};
  for (std::int64_t c = lane; c < width; c += 32)
    for (int run = 0; run < s.splits; ++run) sums.add(s, moments, first + run, run, g * width + c);
  warp_merge<Add>(sums.sum);
  for (double& sum : sums.sum) sum = __shfl_sync(~0u, sum, 0);
  const double count = static_cast<double>(s.pixels * width);
  const double mean = sums.mean(count), variance = sums.variance(count);
  const double rstd = 1 / sqrt(variance + (s.about_zero ? mean * mean : 0) + s.eps);
  if (lane == 0) {
    split_value(mean, slice[warp], slice[slices + warp]);
    slice[2 * slices + warp] = static_cast<A>(rstd);
  }
  for (std::int64_t c = g * width + lane; c < (g + 1) * width; c += 32) {
    A* row = table + n * s.channels + c;
    row[0] = v != nullptr ? v[c] : A(1);
    row[s.maps()] = gamma[c] * static_cast<A>(rstd);
    row[2 * s.maps()] = beta[c];
  }
}

// From the sums of GateReduce over runs: sums[0, 1, 2][n][c] = shares of the sample in dgamma, dbeta and dv; rows of
// GateBackward.
template <class A>
__global__ void gate_slopes_kernel(Sizes s, const A* partial, const A* slice, const A* gamma, const A* v, A* sums,
                                   A* table) {
  gpu::begin_kernel();
  const std::int64_t warp = thread_index() / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t slices = s.samples * s.groups;
  if (warp >= slices) return;
  const std::int64_t n = warp / s.groups, g = warp % s.groups, width = s.channels / s.groups;
  const double rstd = static_cast<double>(slice[2 * slices + warp]);
  double product[1] = {};
  for (std::int64_t c = g * width + lane; c < (g + 1) * width; c += 32) {
    double sum[3] = {};
    for (std::int64_t run = 0; run < s.splits; ++run)
#pragma unroll
      for (int k = 0; k < 3; ++k)
        sum[k] += static_cast<double>(partial[((k * s.samples + n) * s.splits + run) * s.channels + c]);
    const double scale = static_cast<double>(gamma[c]) * rstd;
    product[0] += scale * sum[0];
    A* row = sums + n * s.channels + c;
    row[0] = static_cast<A>(rstd * sum[0]);
    row[s.maps()] = static_cast<A>(sum[1]);
    row[2 * s.maps()] = static_cast<A>(scale * sum[2]);
  }
  warp_merge<Add>(product);
  const double slope = -rstd * rstd * (__shfl_sync(~0u, product[0], 0) / static_cast<double>(s.pixels * width));
  const double pivot = static_cast<double>(slice[warp]);
  const double centre = s.about_zero ? 0 : pivot + static_cast<double>(slice[slices + warp]);
  for (std::int64_t c = g * width + lane; c < (g + 1) * width; c += 32) {
    A* row = table + n * s.channels + c;
    row[0] = v != nullptr ? v[c] : A(1);
    row[s.maps()] = static_cast<A>(static_cast<double>(gamma[c]) * rstd);
    row[2 * s.maps()] = static_cast<A>(pivot);
    row[3 * s.maps()] = static_cast<A>(slope);
    row[4 * s.maps()] = static_cast<A>(slope * (pivot - centre));
  }
}

// --- maximum ---

// Statistics of the maximum kept for backward, rows of [N, C]: those of MaximumForward, then the mean in two parts.
inline constexpr int maximum_rows = 8;

// Moments of the batch's channel c, summed over the column.
__device__ inline PivotSums batch_moments(const Sizes& s, const double* moments, std::int64_t c) {
  const bool active = c < s.channels;
  PivotSums sums{active ? moments[c] : 0};
  const int rows = static_cast<int>(blockDim.y), step = rows % s.splits;
  int run = static_cast<int>(threadIdx.y) % s.splits;
  if (active)
#pragma unroll 4
    for (std::int64_t j = threadIdx.y; j < s.runs(); j += rows) {
      sums.add(s, moments, j, run, c);
      run += step;
      if (run >= s.splits) run -= s.splits;
    }
  column_sum(sums.sum);
  return sums;
}

// The batch's statistics and then those of every map; the blocks along y share out the samples. batch[0, 1, 2][c] =
// mean in two parts (0 in evaluation), deviation; running_var is updated in training, if it is not null, and read in
// evaluation. Without moments (the affine case) the maximum is 1.
template <class A>
__global__ void __launch_bounds__(column_threads)
    maximum_statistics_kernel(Sizes s, const double* moments, A* batch, A* running_var, const A* gamma, const A* beta,
                              const A* v, A* table) {
  const std::int64_t c = std::int64_t{blockIdx.x} * column_lanes + threadIdx.x, maps = s.maps();
  const bool writes = c < s.channels && threadIdx.y == 0 && blockIdx.y == 0;
  const double pixels = static_cast<double>(s.pixels);
  gpu::begin_kernel();
  A b = 1;
  if (moments != nullptr && s.training) {
    const PivotSums sums = batch_moments(s, moments, c);
    const double count = static_cast<double>(s.samples) * pixels, variance = sums.variance(count);
    b = static_cast<A>(sqrt(variance + s.eps));
    if (writes) {
      split_value(sums.mean(count), batch[c], batch[s.channels + c]);
      batch[2 * s.channels + c] = b;
      if (running_var != nullptr)
        running_var[c] = static_cast<A>((1 - s.momentum) * static_cast<double>(running_var[c]) + s.momentum * variance);
    }
  } else if (moments != nullptr && c < s.channels) {
    b = static_cast<A>(sqrt(static_cast<double>(running_var[c]) + s.eps));
    if (writes) {
      batch[c] = batch[s.channels + c] = 0;
      batch[2 * s.channels + c] = b;
    }
  }
  if (c >= s.channels) return;
  for (std::int64_t n = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; n < s.samples;
       n += std::int64_t{blockDim.y} * gridDim.y) {
    A a = 0, i = 0, i_low = 0, mean = 0, mean_low = 0;
    if (moments != nullptr) {
      const std::int64_t first = n * s.splits;
      PivotSums sums{moments[first * s.channels + c]};
#pragma unroll 4
      for (int run = 0; run < s.splits; ++run) sums.add(s, moments, first + run, run, c);
      const double m = sums.mean(pixels);
      split_value(m, mean, mean_low);
      split_value(sqrt(sums.variance(pixels) + (s.about_zero ? m * m : 0) + s.eps), i, i_low);
      if (isnan(b)) i = b;
      a = s.variant == EvoNorm::B0 ? v[c] : s.variant == EvoNorm::B1 ? i : A(-1);
    }
    const A row[maximum_rows] = {a, i, i_low, b, gamma[c], beta[c], mean, mean_low};
    for (int k = 0; k < maximum_rows; ++k) table[k * maps + n * s.channels + c] = row[k];
  }
}

// Sums over the samples of sums[k][n][c], k = blockIdx.y, to to[k][c] if that is not null.
template <class A>
struct Totals {
  A* to[3];
};
template <class A>
__global__ void __launch_bounds__(column_threads)
    sum_samples_kernel(std::int64_t samples, std::int64_t channels, const A* sums, Totals<A> totals) {
  const std::int64_t c = std::int64_t{blockIdx.x} * column_lanes + threadIdx.x;
  const A* from = sums + blockIdx.y * samples * channels + c;
  A* const to = totals.to[blockIdx.y];
  gpu::begin_kernel();
  if (to == nullptr) return;
  double sum[1] = {};
  if (c < channels)
#pragma unroll 8
    for (std::int64_t n = threadIdx.y; n < samples; n += blockDim.y) sum[0] += static_cast<double>(from[n * channels]);
  column_sum(sum);
  if (c < channels && threadIdx.y == 0) to[c] = static_cast<A>(sum[0]);
}

// From the sums of MaximumReduce over runs, partial: gradients of the parameters (dv may be null) and, if there is a
// table, rows of MaximumBackward. The blocks along y share out the samples.
template <class A>
__global__ void __launch_bounds__(column_threads)
    maximum_slopes_kernel(Sizes s, const A* statistics, const A* batch, const A* gamma, const A* partial, A* dgamma,
                          A* dbeta, A* dv, A* table) {
  const std::int64_t c = std::int64_t{blockIdx.x} * column_lanes + threadIdx.x, maps = s.maps();
  const std::int64_t plane = maps * s.splits;
  const double pixels = static_cast<double>(s.pixels);
  gpu::begin_kernel();
  double sum[4] = {};  // over the batch: of terms 0, 1, 2, 4
  if (c < s.channels)
#pragma unroll 4
    for (std::int64_t j = threadIdx.y; j < s.runs(); j += blockDim.y) {
      const A* from = partial + j * s.channels + c;
#pragma unroll
      for (int k = 0; k < 4; ++k) sum[k] += static_cast<double>(from[(k < 3 ? k : 4) * plane]);
    }
  column_sum(sum);
  if (c >= s.channels) return;
  const double scale = static_cast<double>(gamma[c]);
  if (threadIdx.y == 0 && blockIdx.y == 0) {
    dgamma[c] = static_cast<A>(sum[0]);
    dbeta[c] = static_cast<A>(sum[1]);
    if (dv != nullptr) dv[c] = static_cast<A>(-scale * sum[3]);
  }
  if (table == nullptr) return;
  double mean = 0, batch_slope = 0;
  if (!s.affine && s.training) {
    mean = static_cast<double>(batch[c]) + static_cast<double>(batch[s.channels + c]);
    batch_slope =
        -scale * sum[2] / (static_cast<double>(s.samples) * pixels * static_cast<double>(batch[2 * s.channels + c]));
  }
  for (std::int64_t n = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; n < s.samples;
       n += std::int64_t{blockDim.y} * gridDim.y) {
    const std::int64_t map = n * s.channels + c;
    double pivot = 0, slope = 0, offset = 0;
    if (!s.affine) {
      double instance_sum = 0;
#pragma unroll 4
      for (int run = 0; run < s.splits; ++run) {
        const A* from = partial + 3 * plane + (n * s.splits + run) * s.channels + c;
        instance_sum += static_cast<double>(from[0]);
        if (s.variant == EvoNorm::B1) instance_sum += static_cast<double>(from[plane]);
      }
      pivot = static_cast<double>(statistics[6 * maps + map]);
      const double centre = s.about_zero ? 0 : pivot + static_cast<double>(statistics[7 * maps + map]);
      slope = -scale * instance_sum / (pixels * static_cast<double>(statistics[maps + map]));
      offset = slope * (pivot - centre) + batch_slope * (pivot - mean);
      slope += batch_slope;
    }
    for (int k = 0; k < 5; ++k) table[k * maps + map] = statistics[k * maps + map];
    table[5 * maps + map] = static_cast<A>(pivot);
    table[6 * maps + map] = static_cast<A>(slope);
    table[7 * maps + map] = static_cast<A>(offset);
  }
}

}  // namespace bevel::evo
