// EvoNorm on the CPU: one task a sample, and sums over samples in their order. Statistics are kept in f64.
#include <bevel/core/parallel.h>
#include <bevel/ops/evonorm/detail/sample_kernels.h>
#include <bevel/ops/kernel/isa.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace bevel::evo {

namespace baseline {
SampleKernels kernels();
}
#if defined(BEVEL_HAS_X86_64_V3)
namespace x86_64_v3 {
SampleKernels kernels();
}
#endif

const SampleKernels& sample_kernels() {
#if defined(BEVEL_HAS_X86_64_V3)
  static const SampleKernels best = bevel::detail::has_x86_64_v3() ? x86_64_v3::kernels() : baseline::kernels();
#else
  static const SampleKernels best = baseline::kernels();
#endif
  return best;
}

namespace {

using Table = std::vector<double>;  // rows of one value for each channel

std::size_t size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

const void* sample(const Problem& p, const Array& array, std::int64_t n) {
  return static_cast<const char*>(array.raw()) + n * p.pixels * p.channels * size_of(p.dtype);
}
void* mutable_sample(const Problem& p, const Array& array, std::int64_t n) {
  return static_cast<char*>(array.raw()) + n * p.pixels * p.channels * size_of(p.dtype);
}

// A parameter as doubles; `otherwise` where it is undefined.
Table parameter(const Problem& p, const Array& array, double otherwise) {
  Table result(size(p.channels), otherwise);
  if (array.defined())
    visit_float_double(compute_dtype(p.dtype), "evonorm",
                       [&]<class T>() { std::copy_n(array.data<T>(), p.channels, result.begin()); });
  return result;
}

void store(const Problem& p, const Array& array, const double* values) {
  visit_float_double(compute_dtype(p.dtype), "evonorm", [&]<class T>() {
    T* to = array.data<T>();
    for (std::int64_t i = 0; i < p.channels; ++i) to[i] = static_cast<T>(values[i]);
  });
}

// A value as the type in which the pixels are computed holds it.
double rounded(const Problem& p, double value) {
  return compute_dtype(p.dtype) == f64 ? value : static_cast<double>(static_cast<float>(value));
}

// --- gate: statistics.slice is [2, N, G]: means, and 1 / standard deviation or root mean square ---

void group_statistics(const Problem& p, const double* moments, double* mean, double* rstd) {
  const std::int64_t width = p.channels / p.groups;
  const double pixels = static_cast<double>(p.pixels);
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const double* means = moments + g * width;
    const double* squares = moments + p.channels + g * width;
    double centre = 0;
    for (std::int64_t c = 0; c < width; ++c) centre += means[c];
    centre /= static_cast<double>(width);
    double sum = 0;
    for (std::int64_t c = 0; c < width; ++c) sum += squares[c] + pixels * (means[c] - centre) * (means[c] - centre);
    mean[g] = centre;
    const double about = p.about_zero() ? centre * centre : 0;
    rstd[g] = 1 / std::sqrt(sum / (pixels * static_cast<double>(width)) + about + p.eps);
  }
}

void gate_forward(const Problem& p, const ForwardArguments& f) {
  double* mean = f.statistics.slice.data<double>();
  double* rstd = mean + p.samples * p.groups;
  const Table gamma = parameter(p, f.gamma, 1), beta = parameter(p, f.beta, 0), v = parameter(p, f.v, 1);
  const std::int64_t width = p.channels / p.groups;
  parallel_for(p.samples, [&](std::int64_t n) {
    Table moments(size(2 * p.channels));
    sample_kernels().moments(p, sample(p, f.x, n), moments.data());
    group_statistics(p, moments.data(), mean + n * p.groups, rstd + n * p.groups);
    Table table(size(3 * p.channels));
    for (std::int64_t c = 0; c < p.channels; ++c) {
      table[size(c)] = v[size(c)];
      table[size(p.channels + c)] = gamma[size(c)] * rstd[n * p.groups + c / width];
      table[size(2 * p.channels + c)] = beta[size(c)];
    }
    sample_kernels().gate_forward(p, sample(p, f.x, n), mutable_sample(p, f.y, n), table.data());
  });
}

void gate_backward(const Problem& p, const BackwardArguments& b) {
  const double* mean = b.statistics.slice.data<double>();
  const double* rstd = mean + p.samples * p.groups;
  const Table gamma = parameter(p, b.gamma, 1), v = parameter(p, b.v, 1);
  const std::int64_t width = p.channels / p.groups;
  const double count = static_cast<double>(p.pixels * width);
  Table sums(size(p.samples * 3 * p.channels));
  parallel_for(p.samples, [&](std::int64_t n) {
    double* sum = sums.data() + n * 3 * p.channels;
    sample_kernels().gate_reduce(p, sample(p, b.x, n), sample(p, b.dy, n), v.data(), sum);
    Table table(size(5 * p.channels));
    for (std::int64_t g = 0; g < p.groups; ++g) {
      const double scale = rstd[n * p.groups + g];
      double product = 0;
      for (std::int64_t c = g * width; c < (g + 1) * width; ++c) product += gamma[size(c)] * (sum[c] * scale);
      const double centre = mean[n * p.groups + g], pivot = rounded(p, centre);
      const double slope = -scale * scale * (product / count);
      for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
        table[size(c)] = v[size(c)];
        table[size(p.channels + c)] = gamma[size(c)] * scale;
        table[size(2 * p.channels + c)] = pivot;
        table[size(3 * p.channels + c)] = slope;
        table[size(4 * p.channels + c)] = slope * (pivot - (p.about_zero() ? 0 : centre));
        sum[c] *= scale;
        sum[2 * p.channels + c] *= gamma[size(c)] * scale;
      }
    }
    if (b.dx.defined())
      sample_kernels().gate_backward(p, sample(p, b.x, n), sample(p, b.dy, n), mutable_sample(p, b.dx, n),
                                     table.data());
  });
  for (std::int64_t n = 1; n < p.samples; ++n)
    for (std::int64_t i = 0; i < 3 * p.channels; ++i) sums[size(i)] += sums[size(n * 3 * p.channels + i)];
  store(p, b.dgamma, sums.data());
  store(p, b.dbeta, sums.data() + p.channels);
  if (b.dv.defined()) store(p, b.dv, sums.data() + 2 * p.channels);
}

// --- maximum: statistics.slice is [2, N, C]: means and instance deviations or root mean squares;
//     statistics.batch is [2, C]: means (0 in evaluation) and batch deviations ---

void batch_statistics(const Problem& p, const double* moments, double* mean, double* deviation,
                      const Array& running_var) {
  const double samples = static_cast<double>(p.samples), pixels = static_cast<double>(p.pixels);
  Table centre(size(p.channels)), square(size(p.channels));
  for (std::int64_t n = 0; n < p.samples; ++n)
    for (std::int64_t c = 0; c < p.channels; ++c) centre[size(c)] += moments[n * 2 * p.channels + c];
  for (double& value : centre) value /= samples;
  for (std::int64_t n = 0; n < p.samples; ++n) {
    const double* means = moments + n * 2 * p.channels;
    for (std::int64_t c = 0; c < p.channels; ++c) {
      const double difference = means[c] - centre[size(c)];
      square[size(c)] += means[p.channels + c] + pixels * difference * difference;
    }
  }
  for (double& value : square) value /= samples * pixels;
  for (std::int64_t c = 0; c < p.channels; ++c) {
    mean[c] = centre[size(c)];
    deviation[c] = std::sqrt(square[size(c)] + p.eps);
  }
  if (!running_var.defined()) return;
  Table running = parameter(p, running_var, 1);
  for (std::int64_t c = 0; c < p.channels; ++c)
    running[size(c)] = (1 - p.momentum) * running[size(c)] + p.momentum * square[size(c)];
  store(p, running_var, running.data());
}

// Rows a, i, i_low, b of the coefficient tables for sample n.
void maximum_coefficients(const Problem& p, const Table& v, const double* deviation, const double* batch_deviation,
                          double* table) {
  for (std::int64_t c = 0; c < p.channels; ++c) {
    if (p.affine) {
      table[c] = 0;
      table[p.channels + c] = 0;
      table[2 * p.channels + c] = 0;
      table[3 * p.channels + c] = 1;
      continue;
    }
    const double b = batch_deviation[c];
    const double i = std::isnan(b) ? b : deviation[c];
    table[c] = p.variant == EvoNorm::B0 ? v[size(c)] : p.variant == EvoNorm::B1 ? i : -1;
    table[p.channels + c] = rounded(p, i);
    table[2 * p.channels + c] = std::isfinite(i) ? i - rounded(p, i) : 0;
    table[3 * p.channels + c] = b;
  }
}

void maximum_forward(const Problem& p, const ForwardArguments& f) {
  double* mean = f.statistics.slice.data<double>();
  double* deviation = mean + p.samples * p.channels;
  double* batch_mean = f.statistics.batch.data<double>();
  std::fill_n(mean, 2 * p.samples * p.channels, 0.0);
  std::fill_n(batch_mean, 2 * p.channels, 0.0);
  double* batch_deviation = batch_mean + p.channels;
  const Table gamma = parameter(p, f.gamma, 1), beta = parameter(p, f.beta, 0), v = parameter(p, f.v, 0);
  if (!p.affine) {
    Table moments(size(p.samples * 2 * p.channels));
    parallel_for(p.samples, [&](std::int64_t n) {
      double* means = moments.data() + n * 2 * p.channels;
      sample_kernels().moments(p, sample(p, f.x, n), means);
      for (std::int64_t c = 0; c < p.channels; ++c) {
        const double variance = means[p.channels + c] / static_cast<double>(p.pixels);
        mean[n * p.channels + c] = means[c];
        deviation[n * p.channels + c] = std::sqrt(variance + (p.about_zero() ? means[c] * means[c] : 0) + p.eps);
      }
    });
    if (p.training) {
      batch_statistics(p, moments.data(), batch_mean, batch_deviation, f.running_var);
    } else {
      const Table running = parameter(p, f.running_var, 1);
      for (std::int64_t c = 0; c < p.channels; ++c) batch_deviation[c] = std::sqrt(running[size(c)] + p.eps);
    }
  }
  parallel_for(p.samples, [&](std::int64_t n) {
    Table table(size(4 * p.channels));
    maximum_coefficients(p, v, deviation + n * p.channels, batch_deviation, table.data());
    table.insert(table.end(), gamma.begin(), gamma.end());
    table.insert(table.end(), beta.begin(), beta.end());
    sample_kernels().maximum_forward(p, sample(p, f.x, n), mutable_sample(p, f.y, n), table.data());
  });
}

// dx of sample n, from its sums and from those of the whole batch.
void maximum_backward_sample(const Problem& p, const BackwardArguments& b, std::int64_t n, const Table& gamma,
                             const Table& v, const double* sums, const double* total) {
  const double* mean = b.statistics.slice.data<double>() + n * p.channels;
  const double* deviation = mean + p.samples * p.channels;
  const double* batch_mean = b.statistics.batch.data<double>();
  const double* batch_deviation = batch_mean + p.channels;
  const double pixels = static_cast<double>(p.pixels), samples = static_cast<double>(p.samples);
  Table table(size(8 * p.channels));
  maximum_coefficients(p, v, deviation, batch_deviation, table.data());
  for (std::int64_t c = 0; c < p.channels; ++c) {
    const auto row = [&](int k) -> double& { return table[size(k * p.channels + c)]; };
    row(4) = gamma[size(c)];
    if (p.affine) continue;
    const double gamma_c = gamma[size(c)];
    const double batch_slope =
        p.training ? -gamma_c * total[2 * p.channels + c] / (samples * pixels * batch_deviation[c]) : 0;
    const double instance = sums[3 * p.channels + c] + (p.variant == EvoNorm::B1 ? sums[4 * p.channels + c] : 0);
    const double slope = -gamma_c * instance / (pixels * deviation[c]);
    const double pivot = rounded(p, mean[c]);
    row(5) = pivot;
    row(6) = slope + batch_slope;
    row(7) = slope * (pivot - (p.about_zero() ? 0 : mean[c])) + batch_slope * (pivot - batch_mean[c]);
  }
  sample_kernels().maximum_backward(p, sample(p, b.x, n), sample(p, b.dy, n), mutable_sample(p, b.dx, n), table.data());
}

void maximum_backward(const Problem& p, const BackwardArguments& b) {
  const double* deviation = b.statistics.slice.data<double>() + p.samples * p.channels;
  const double* batch_deviation = b.statistics.batch.data<double>() + p.channels;
  const Table gamma = parameter(p, b.gamma, 1), v = parameter(p, b.v, 0);
  const std::int64_t width = 5 * p.channels;
  Table sums(size(p.samples * width)), total(size(width));
  parallel_for(p.samples, [&](std::int64_t n) {
    Table table(size(4 * p.channels));
    maximum_coefficients(p, v, deviation + n * p.channels, batch_deviation, table.data());
    sample_kernels().maximum_reduce(p, sample(p, b.x, n), sample(p, b.dy, n), table.data(), sums.data() + n * width);
  });
  for (std::int64_t n = 0; n < p.samples; ++n)
    for (std::int64_t i = 0; i < width; ++i) total[size(i)] += sums[size(n * width + i)];
  if (b.dx.defined())
    parallel_for(p.samples, [&](std::int64_t n) {
      maximum_backward_sample(p, b, n, gamma, v, sums.data() + n * width, total.data());
    });
  store(p, b.dgamma, total.data());
  store(p, b.dbeta, total.data() + p.channels);
  if (!b.dv.defined()) return;
  for (std::int64_t c = 0; c < p.channels; ++c) total[size(4 * p.channels + c)] *= -gamma[size(c)];
  store(p, b.dv, total.data() + 4 * p.channels);
}

Statistics statistics_at(const Problem& p, const void* data) {
  const Array start(data);
  if (p.gate()) return {start, {}};
  return {start, start.data<double>() + 2 * p.samples * p.channels};
}

}  // namespace

}  // namespace bevel::evo

namespace bevel::raw {

EvoNormMemory evonorm_memory(Cpu, const EvoNormProblem& p) {
  evo::check_problem(p);
  const std::int64_t batch = p.gate() ? 0 : 2 * p.channels;
  return {static_cast<std::size_t>(2 * p.samples * p.slices() + batch) * sizeof(double), 0, 0};
}

void evonorm_forward(Cpu, const EvoNormProblem& problem, const EvoNormForward& arrays) {
  evo::check(problem, arrays);
  const evo::ForwardArguments arguments = evo::arguments(arrays, evo::statistics_at(problem, arrays.statistics));
  if (problem.gate())
    evo::gate_forward(problem, arguments);
  else
    evo::maximum_forward(problem, arguments);
}

void evonorm_backward(Cpu, const EvoNormProblem& problem, const EvoNormBackward& arrays) {
  evo::check(problem, arrays);
  const evo::BackwardArguments arguments = evo::arguments(arrays, evo::statistics_at(problem, arrays.statistics));
  if (problem.gate())
    evo::gate_backward(problem, arguments);
  else
    evo::maximum_backward(problem, arguments);
}

}  // namespace bevel::raw
