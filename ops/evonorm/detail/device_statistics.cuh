// The small kernels between the passes over the pictures: from sums per run to statistics, coefficients and gradients
// of the parameters. They compute in double, in a fixed order.
#pragma once

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

// slice[0 .. 3][n][c] = mean and instance deviation, each in two parts. One thread a map.
template <class A>
__global__ void instance_statistics_kernel(Sizes s, const double* moments, A* slice) {
  const std::int64_t map = thread_index();
  if (map >= s.maps()) return;
  double value[3] = {};
  for (std::int64_t run = 0; run < s.splits; ++run) {
    double other[3];
    load_moments(s, moments, map / s.channels, run, map % s.channels, other);
    Chan::merge(value, other);
  }
  split_value(value[1], slice[map], slice[s.maps() + map]);
  const double square = value[2] / value[0] + (s.about_zero ? value[1] * value[1] : 0);
  split_value(sqrt(square + s.eps), slice[2 * s.maps() + map], slice[3 * s.maps() + map]);
}

inline constexpr int column_lanes = 32, column_rows = 16;

// Merges the values of a column of threads of a (column_lanes, column_rows) block; row 0 has the result.
template <class Merge, int K>
__device__ void column_merge(double (&value)[K]) {
  __shared__ double shared[K][column_rows][column_lanes];
  for (int step = column_rows / 2; step > 0; step /= 2) {
    const int row = static_cast<int>(threadIdx.y);
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

// batch[0, 1, 2][c] = mean in two parts, deviation; running_var (may be null) is updated.
template <class A>
__global__ void batch_statistics_kernel(Sizes s, const double* moments, A* batch, A* running_var) {
  const std::int64_t c = std::int64_t{blockIdx.x} * column_lanes + threadIdx.x;
  double value[3] = {};
  if (c < s.channels)
    for (std::int64_t j = threadIdx.y; j < s.samples * s.splits; j += column_rows) {
      double other[3];
      load_moments(s, moments, j / s.splits, j % s.splits, c, other);
      Chan::merge(value, other);
    }
  column_merge<Chan>(value);
  if (c >= s.channels || threadIdx.y != 0) return;
  const double variance = value[2] / value[0];
  split_value(value[1], batch[c], batch[s.channels + c]);
  batch[2 * s.channels + c] = static_cast<A>(sqrt(variance + s.eps));
  if (running_var != nullptr)
    running_var[c] = static_cast<A>((1 - s.momentum) * static_cast<double>(running_var[c]) + s.momentum * variance);
}

// The same in evaluation.
template <class A>
__global__ void running_statistics_kernel(Sizes s, A* batch, const A* running_var) {
  const std::int64_t c = thread_index();
  if (c >= s.channels) return;
  batch[c] = batch[s.channels + c] = 0;
  batch[2 * s.channels + c] = static_cast<A>(sqrt(static_cast<double>(running_var[c]) + s.eps));
}

// Rows of MaximumForward; the first of them are those of MaximumReduce.
template <class A>
__global__ void maximum_table_kernel(Sizes s, const A* slice, const A* batch, const A* gamma, const A* beta, const A* v,
                                     A* table) {
  const std::int64_t map = thread_index();
  if (map >= s.maps()) return;
  const std::int64_t c = map % s.channels;
  A a = 0, i = 0, i_low = 0, b = 1;
  if (!s.affine) {
    i = slice[2 * s.maps() + map];
    i_low = slice[3 * s.maps() + map];
    b = batch[2 * s.channels + c];
    if (isnan(b)) i = b;
    a = s.variant == EvoNorm::B0 ? v[c] : s.variant == EvoNorm::B1 ? i : A(-1);
  }
  table[map] = a;
  table[s.maps() + map] = i;
  table[2 * s.maps() + map] = i_low;
  table[3 * s.maps() + map] = b;
  table[4 * s.maps() + map] = gamma[c];
  if (beta != nullptr) table[5 * s.maps() + map] = beta[c];
}

// sums[k][n][c] = sum over the runs of partial[k][n][run][c].
template <class A>
__global__ void sum_runs_kernel(Sizes s, int rows, const A* partial, A* sums) {
  const std::int64_t i = thread_index();
  if (i >= rows * s.maps()) return;
  double sum = 0;
  const A* from = partial + i / s.channels * s.splits * s.channels + i % s.channels;
  for (std::int64_t run = 0; run < s.splits; ++run) sum += static_cast<double>(from[run * s.channels]);
  sums[i] = static_cast<A>(sum);
}

// total[k][c] = sum over the samples of sums[k][n][c]; blockIdx.y is k.
template <class A>
__global__ void sum_samples_kernel(Sizes s, const A* sums, A* total) {
  const std::int64_t c = std::int64_t{blockIdx.x} * column_lanes + threadIdx.x;
  double sum[1] = {};
  if (c < s.channels)
    for (std::int64_t n = threadIdx.y; n < s.samples; n += column_rows)
      sum[0] += static_cast<double>(sums[(blockIdx.y * s.samples + n) * s.channels + c]);
  column_merge<Add>(sum);
  if (c < s.channels && threadIdx.y == 0) total[blockIdx.y * s.channels + c] = static_cast<A>(sum[0]);
}

// Gradients of the parameters from totals over the batch; v_factor (may be null) multiplies that of v, negated.
template <class A>
__global__ void parameter_gradients_kernel(std::int64_t channels, const A* dgamma_total, const A* dbeta_total,
                                           const A* dv_total, const A* v_factor, A* dgamma, A* dbeta, A* dv) {
  const std::int64_t c = thread_index();
  if (c >= channels) return;
  dgamma[c] = dgamma_total[c];
  dbeta[c] = dbeta_total[c];
  if (dv != nullptr) dv[c] = v_factor != nullptr ? -v_factor[c] * dv_total[c] : dv_total[c];
}

// Rows of MaximumBackward; the first five are there already.
template <class A>
__global__ void maximum_slopes_kernel(Sizes s, const A* slice, const A* batch, const A* sums, const A* total,
                                      A* table) {
  const std::int64_t map = thread_index();
  if (map >= s.maps()) return;
  const std::int64_t c = map % s.channels, maps = s.maps();
  double pivot = 0, slope = 0, offset = 0;
  if (!s.affine) {
    const double gamma = static_cast<double>(table[4 * maps + map]), pixels = static_cast<double>(s.pixels);
    const double instance_sum = static_cast<double>(sums[3 * maps + map]) +
                                (s.variant == EvoNorm::B1 ? static_cast<double>(sums[4 * maps + map]) : 0);
    pivot = static_cast<double>(slice[map]);
    const double centre = s.about_zero ? 0 : pivot + static_cast<double>(slice[maps + map]);
    slope = -gamma * instance_sum / (pixels * static_cast<double>(slice[2 * maps + map]));
    offset = slope * (pivot - centre);
    if (s.training) {
      const double mean = static_cast<double>(batch[c]) + static_cast<double>(batch[s.channels + c]);
      const double batch_slope =
          -gamma * static_cast<double>(total[2 * s.channels + c]) /
          (static_cast<double>(s.samples) * pixels * static_cast<double>(batch[2 * s.channels + c]));
      slope += batch_slope;
      offset += batch_slope * (pivot - mean);
    }
  }
  table[5 * maps + map] = static_cast<A>(pivot);
  table[6 * maps + map] = static_cast<A>(slope);
  table[7 * maps + map] = static_cast<A>(offset);
}

}  // namespace bevel::evo
