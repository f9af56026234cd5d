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

// Moments of several parts, as sums of differences from a pivot, the mean of one of them, and of squares of these and
// of those within the parts. That mean cannot be so far off that doubles would feel it (see moments_kernel), and there
// is nothing to divide by on the way.
struct PivotSums {
  double pivot, sum[2] = {};

  __device__ void add(double count, double mean, double squares) {
    const double difference = mean - pivot, weighted = count * difference;
    sum[0] += weighted;
    sum[1] += squares + weighted * difference;
  }
  // `share`: 1 over the number of elements.
  __device__ double mean(double share) const { return pivot + sum[0] * share; }
  __device__ double squares(double share) const {
    const double result = sum[1] - sum[0] * (sum[0] * share);
    return result < 0 ? 0 : result;  // a NaN stays one
  }
};

// Mean and sum of squared deviations over all runs of a map.
struct MapMoments {
  double mean, squares;
  __device__ MapMoments(const Sizes& s, const double* __restrict__ moments, std::int64_t sample, std::int64_t channel,
                        double share) {
    const std::int64_t plane = s.maps() * s.splits;
    const double* from = moments + sample * s.splits * s.channels + channel;
    mean = from[0];
    squares = from[plane];
    if (s.splits == 1) return;
    PivotSums sums{mean};
#pragma unroll 4
    for (int run = 0; run < s.splits; ++run, from += s.channels) sums.add(s.run_pixels(run), from[0], from[plane]);
    mean = sums.mean(share);
    squares = sums.squares(share);
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
  const double pixels = static_cast<double>(s.pixels), share = 1 / (pixels * static_cast<double>(width));
  PivotSums sums{moments[n * s.splits * s.channels + g * width]};
  for (std::int64_t c = lane; c < width; c += 32) {
    const MapMoments map(s, moments, n, g * width + c, 1 / pixels);
    sums.add(pixels, map.mean, map.squares);
  }
  warp_merge<Add>(sums.sum);
  for (double& sum : sums.sum) sum = __shfl_sync(~0u, sum, 0);
  const double mean = sums.mean(share), variance = sums.squares(share) * share;
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

// The statistics of every map and of the batch. batch[0, 1, 2][c] = mean in two parts (0 in evaluation), deviation;
// running_var is updated in training, if it is not null, and read in evaluation. Without moments (the affine case) the
// maximum is 1.
template <class A>
__global__ void __launch_bounds__(column_threads)
    maximum_statistics_kernel(Sizes s, const double* __restrict__ moments, A* batch, A* running_var, const A* gamma,
                              const A* beta, const A* v, A* __restrict__ table) {
  const std::int64_t c = std::int64_t{blockIdx.x} * column_lanes + threadIdx.x, maps = s.maps();
  const int first = static_cast<int>(threadIdx.y), rows = static_cast<int>(blockDim.y);
  const bool active = c < s.channels;
  const double pixels = static_cast<double>(s.pixels), share = 1 / pixels;
  gpu::begin_kernel();
  const bool measured = moments != nullptr;
  PivotSums sums{measured && active ? moments[c] : 0};
  if (active) {
    const A scale = gamma[c], shift = beta[c], v_or_other = s.variant == EvoNorm::B0 && measured ? v[c] : A(-1);
#pragma unroll 4
    for (std::int64_t n = first; n < s.samples; n += rows) {
      A a = 0, i = 0, i_low = 0, mean = 0, mean_low = 0;
      if (measured) {
        const MapMoments map(s, moments, n, c, share);
        sums.add(pixels, map.mean, map.squares);
        split_value(map.mean, mean, mean_low);
        split_value(sqrt(map.squares * share + (s.about_zero ? map.mean * map.mean : 0) + s.eps), i, i_low);
        a = s.variant == EvoNorm::B1 ? i : v_or_other;
      }
      const A row[maximum_rows] = {a, i, i_low, 1, scale, shift, mean, mean_low};
#pragma unroll
      for (int k = 0; k < maximum_rows; ++k)
        if (k != 3 || !measured) table[k * maps + n * s.channels + c] = row[k];
    }
  }
  if (!measured) return;
  double variance = 0;
  if (s.training) {
    column_sum(sums.sum);
    const double all_share = 1 / (static_cast<double>(s.samples) * pixels);
    variance = sums.squares(all_share) * all_share;
    if (!active) return;
    if (first == 0) {
      split_value(sums.mean(all_share), batch[c], batch[s.channels + c]);
      if (running_var != nullptr)
        running_var[c] = static_cast<A>((1 - s.momentum) * static_cast<double>(running_var[c]) + s.momentum * variance);
    }
  } else {
    if (!active) return;
    variance = static_cast<double>(running_var[c]);
    if (first == 0) batch[c] = batch[s.channels + c] = 0;
  }
  const A b = static_cast<A>(sqrt(variance + s.eps));
  if (first == 0) batch[2 * s.channels + c] = b;
  for (std::int64_t n = first; n < s.samples; n += rows) {
    table[3 * maps + n * s.channels + c] = b;
    if (isnan(b)) table[maps + n * s.channels + c] = b;
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

// The share of a map's own statistics in a row of MaximumBackward, and what else the row takes from them.
template <class A>
struct MapSlope {
  A kept[5], pivot, pivot_low;
  double instance_sum = 0;

  __device__ MapSlope(const Sizes& s, const A* __restrict__ statistics, const A* __restrict__ partial, std::int64_t n,
                      std::int64_t c) {
    const std::int64_t maps = s.maps(), plane = maps * s.splits;
    const A* row = statistics + n * s.channels + c;
#pragma unroll
    for (int k = 0; k < 5; ++k) kept[k] = row[k * maps];
    pivot = row[6 * maps];
    pivot_low = row[7 * maps];
    const A* from = partial + 3 * plane + n * s.splits * s.channels + c;
#pragma unroll 4
    for (int run = 0; run < s.splits; ++run, from += s.channels) {
      instance_sum += static_cast<double>(from[0]);
      if (s.variant == EvoNorm::B1) instance_sum += static_cast<double>(from[plane]);
    }
  }
};

// From the sums of MaximumReduce over runs, partial: gradients of the parameters (dv may be null) and, if there is a
// table, rows of MaximumBackward. The blocks along y share out the samples; each sums over the batch for itself.
template <class A>
__global__ void __launch_bounds__(column_threads)
    maximum_slopes_kernel(Sizes s, const A* __restrict__ statistics, const A* __restrict__ batch,
                          const A* __restrict__ gamma, const A* __restrict__ partial, A* dgamma, A* dbeta, A* dv,
                          A* __restrict__ table) {
  const std::int64_t c = std::int64_t{blockIdx.x} * column_lanes + threadIdx.x, maps = s.maps();
  const std::int64_t plane = maps * s.splits, step = std::int64_t{blockDim.y} * gridDim.y;
  const int rows = static_cast<int>(blockDim.y), first = static_cast<int>(threadIdx.y);
  const bool active = c < s.channels;
  const double pixels = static_cast<double>(s.pixels);
  std::int64_t n = std::int64_t{blockIdx.y} * rows + first;
  gpu::begin_kernel();
  const bool writes = active && table != nullptr;
  // Of the thread's first map; fetched early, so that nobody waits for it later.
  MapSlope<A> map(s, statistics, partial, writes && n < s.samples ? n : 0, active ? c : 0);
  double sum[4] = {};  // over the batch: of terms 0, 1, 2, 4
  if (active)
#pragma unroll 4
    for (std::int64_t j = first; j < s.runs(); j += rows) {
      const A* from = partial + j * s.channels + c;
#pragma unroll
      for (int k = 0; k < 4; ++k) sum[k] += static_cast<double>(from[(k < 3 ? k : 4) * plane]);
    }
  const double scale = active ? static_cast<double>(gamma[c]) : 0;
  double mean = 0, deviation = 1;
  if (active && !s.affine && s.training) {
    mean = static_cast<double>(batch[c]) + static_cast<double>(batch[s.channels + c]);
    deviation = static_cast<double>(batch[2 * s.channels + c]);
  }
  column_sum(sum);
  if (active && first == 0 && blockIdx.y == 0) {
    dgamma[c] = static_cast<A>(sum[0]);
    dbeta[c] = static_cast<A>(sum[1]);
    if (dv != nullptr) dv[c] = static_cast<A>(-scale * sum[3]);
  }
  if (!writes) return;
  const double batch_slope =
      s.affine || !s.training ? 0 : -scale * sum[2] / (static_cast<double>(s.samples) * pixels * deviation);
  for (; n < s.samples; n += step) {
    const double pivot = static_cast<double>(map.pivot);
    const double centre = s.about_zero ? 0 : pivot + static_cast<double>(map.pivot_low);
    const double slope = s.affine ? 0 : -scale * map.instance_sum / (pixels * static_cast<double>(map.kept[1]));
    A* to = table + n * s.channels + c;
#pragma unroll
    for (int k = 0; k < 5; ++k) to[k * maps] = map.kept[k];
    to[5 * maps] = map.pivot;
    to[6 * maps] = static_cast<A>(slope + batch_slope);
    to[7 * maps] = static_cast<A>(slope * (pivot - centre) + batch_slope * (pivot - mean));
    if (n + step < s.samples) map = MapSlope<A>(s, statistics, partial, n + step, c);
  }
}

}  // namespace bevel::evo
