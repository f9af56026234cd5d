// The small kernels between the passes over the pictures: from sums per run to statistics, coefficients and gradients
// of the parameters. They compute in double, in a fixed order.
#pragma once

#include <bevel/core/cuda/launch.cuh>
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
  __device__ double run_pixels(std::int64_t run) const {
    const std::int64_t rest = pixels - run * split_pixels;
    return static_cast<double>(rest < split_pixels ? rest : split_pixels);
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
  value[0] = s.run_pixels(run);
  value[1] = moments[i];
  value[2] = moments[s.maps() * s.splits + i];
}

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
  double value[3] = {};
  for (std::int64_t j = lane; j < width * s.splits; j += 32) {
    double other[3];
    load_moments(s, moments, n, j / width, g * width + j % width, other);
    Chan::merge(value, other);
  }
  warp_merge<Chan>(value);
  const double mean = __shfl_sync(~0u, value[1], 0);
  const double variance = __shfl_sync(~0u, value[2] / value[0], 0);
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

// Blocks that go down columns: few channels each, so that there are many blocks, 32 bytes of f32 side by side.
inline constexpr int column_lanes = 8, column_rows = 64;

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

// Statistics of the maximum kept for backward, rows of [N, C]: those of MaximumForward, then the mean in two parts.
inline constexpr int maximum_rows = 8;

// The batch's statistics and then those of every map. batch[0, 1, 2][c] = mean in two parts (0 in evaluation),
// deviation; running_var is updated in training, if it is not null, and read in evaluation. Without moments (the affine
// case) the maximum is 1.
template <class A>
__global__ void __launch_bounds__(column_lanes* column_rows)
    maximum_statistics_kernel(Sizes s, const double* moments, A* batch, A* running_var, const A* gamma, const A* beta,
                              const A* v, A* table) {
  __shared__ A deviation[column_lanes];
  gpu::begin_kernel();
  const std::int64_t c = std::int64_t{blockIdx.x} * column_lanes + threadIdx.x, maps = s.maps();
  if (moments != nullptr && s.training) {
    double value[3] = {};
    if (c < s.channels)
#pragma unroll 4
      for (std::int64_t j = threadIdx.y; j < s.samples * s.splits; j += column_rows) {
        double other[3];
        load_moments(s, moments, j / s.splits, j % s.splits, c, other);
        Chan::merge(value, other);
      }
    column_merge<Chan>(value);
    if (c < s.channels && threadIdx.y == 0) {
      const double variance = value[2] / value[0];
      split_value(value[1], batch[c], batch[s.channels + c]);
      batch[2 * s.channels + c] = deviation[threadIdx.x] = static_cast<A>(sqrt(variance + s.eps));
      if (running_var != nullptr)
        running_var[c] = static_cast<A>((1 - s.momentum) * static_cast<double>(running_var[c]) + s.momentum * variance);
    }
  } else if (moments != nullptr && c < s.channels && threadIdx.y == 0) {
    batch[c] = batch[s.channels + c] = 0;
    batch[2 * s.channels + c] = deviation[threadIdx.x] =
        static_cast<A>(sqrt(static_cast<double>(running_var[c]) + s.eps));
  }
  __syncthreads();
  if (c >= s.channels) return;
  const A b = moments != nullptr ? deviation[threadIdx.x] : A(1);
  for (std::int64_t n = threadIdx.y; n < s.samples; n += column_rows) {
    A a = 0, i = 0, i_low = 0, mean = 0, mean_low = 0;
    if (moments != nullptr) {
      double value[3] = {};
      for (std::int64_t run = 0; run < s.splits; ++run) {
        double other[3];
        load_moments(s, moments, n, run, c, other);
        Chan::merge(value, other);
      }
      split_value(value[1], mean, mean_low);
      split_value(sqrt(value[2] / value[0] + (s.about_zero ? value[1] * value[1] : 0) + s.eps), i, i_low);
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
__global__ void __launch_bounds__(column_lanes* column_rows)
    sum_samples_kernel(std::int64_t samples, std::int64_t channels, const A* sums, Totals<A> totals) {
  gpu::begin_kernel();
  A* const to = totals.to[blockIdx.y];
  if (to == nullptr) return;
  const std::int64_t c = std::int64_t{blockIdx.x} * column_lanes + threadIdx.x;
  double sum[1] = {};
  if (c < channels) {
    const A* from = sums + blockIdx.y * samples * channels + c;
#pragma unroll 8
    for (std::int64_t n = threadIdx.y; n < samples; n += column_rows) sum[0] += static_cast<double>(from[n * channels]);
  }
  column_merge<Add>(sum);
  if (c < channels && threadIdx.y == 0) to[c] = static_cast<A>(sum[0]);
}

// From the sums of MaximumReduce over runs, partial: gradients of the parameters (dv may be null) and, if there is a
// table, rows of MaximumBackward.
template <class A>
__global__ void __launch_bounds__(column_lanes* column_rows)
    maximum_slopes_kernel(Sizes s, const A* statistics, const A* batch, const A* gamma, const A* partial, A* dgamma,
                          A* dbeta, A* dv, A* table) {
  __shared__ double batch_total[column_lanes];
  gpu::begin_kernel();
  const std::int64_t c = std::int64_t{blockIdx.x} * column_lanes + threadIdx.x, maps = s.maps();
  const std::int64_t plane = maps * s.splits;
  double sum[4] = {};  // over the batch: of terms 0, 1, 2, 4
  if (c < s.channels)
#pragma unroll 4
    for (std::int64_t j = threadIdx.y; j < s.samples * s.splits; j += column_rows) {
      const A* from = partial + j * s.channels + c;
#pragma unroll
      for (int k = 0; k < 4; ++k) sum[k] += static_cast<double>(from[(k < 3 ? k : 4) * plane]);
    }
  column_merge<Add>(sum);
  if (c < s.channels && threadIdx.y == 0) {
    dgamma[c] = static_cast<A>(sum[0]);
    dbeta[c] = static_cast<A>(sum[1]);
    if (dv != nullptr) dv[c] = static_cast<A>(-static_cast<double>(gamma[c]) * sum[3]);
    batch_total[threadIdx.x] = sum[2];
  }
  __syncthreads();
  if (c >= s.channels || table == nullptr) return;
  for (std::int64_t n = threadIdx.y; n < s.samples; n += column_rows) {
    const std::int64_t map = n * s.channels + c;
    double pivot = 0, slope = 0, offset = 0;
    if (!s.affine) {
      const double scale = static_cast<double>(gamma[c]), pixels = static_cast<double>(s.pixels);
      double instance_sum = 0;
      for (std::int64_t run = 0; run < s.splits; ++run) {
        const std::int64_t at = (n * s.splits + run) * s.channels + c;
        instance_sum += static_cast<double>(partial[3 * plane + at]);
        if (s.variant == EvoNorm::B1) instance_sum += static_cast<double>(partial[4 * plane + at]);
      }
      pivot = static_cast<double>(statistics[6 * maps + map]);
      const double centre = s.about_zero ? 0 : pivot + static_cast<double>(statistics[7 * maps + map]);
      slope = -scale * instance_sum / (pixels * static_cast<double>(statistics[maps + map]));
      offset = slope * (pivot - centre);
      if (s.training) {
        const double mean = static_cast<double>(batch[c]) + static_cast<double>(batch[s.channels + c]);
        const double batch_slope =
            -scale * batch_total[threadIdx.x] /
            (static_cast<double>(s.samples) * pixels * static_cast<double>(batch[2 * s.channels + c]));
        slope += batch_slope;
        offset += batch_slope * (pivot - mean);
      }
    }
    for (int k = 0; k < 5; ++k) table[k * maps + map] = statistics[k * maps + map];
    table[5 * maps + map] = static_cast<A>(pivot);
    table[6 * maps + map] = static_cast<A>(slope);
    table[7 * maps + map] = static_cast<A>(offset);
  }
}

}  // namespace bevel::evo
