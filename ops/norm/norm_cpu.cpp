// Batch and group normalisation on the CPU: one task a sample, and sums over samples in their order, in f64.
#include <bevel/core/parallel.h>
#include <bevel/ops/evonorm/detail/sample_kernels.h>
#include <bevel/ops/kernel/isa.h>
#include <bevel/ops/norm/detail/sample_kernels.h>

#include <cmath>
#include <vector>

namespace bevel::norm {

namespace baseline {
SampleKernels kernels();
}
#if defined(BEVEL_HAS_X86_64_V3)
namespace x86_64_v3 {
SampleKernels kernels();
}
#endif

namespace {

const SampleKernels& sample_kernels() {
#if defined(BEVEL_HAS_X86_64_V3)
  static const SampleKernels best = bevel::detail::has_x86_64_v3() ? x86_64_v3::kernels() : baseline::kernels();
#else
  static const SampleKernels best = baseline::kernels();
#endif
  return best;
}

using Table = std::vector<double>;  // rows of one value for each channel

void* sample(const Problem& p, const Tensor& picture, std::int64_t n) {
  return static_cast<char*>(picture.raw()) + n * p.maps.pixels * p.maps.channels * size_of(p.maps.dtype);
}

Table values(const Problem& p, const Tensor& parameter, double otherwise) {
  if (parameter.defined()) return parameter.to_vector();
  return Table(static_cast<std::size_t>(p.maps.channels), otherwise);
}

void store(const Tensor& to, const double* from) {
  if (!to.defined()) return;
  visit_float_double(to.dtype(), "norm", [&]<class T>() {
    for (std::int64_t c = 0; c < to.numel(); ++c) to.data<T>()[c] = static_cast<T>(from[c]);
  });
}

// What is kept, in f64: coefficients by table, [tables, 3, C]; then mean and 1 / deviation of every set.
struct Statistics {
  double* coefficients;
  double* mean;
  double* rstd;

  static std::int64_t size(const Problem& p) { return 3 * p.tables() * p.maps.channels + 2 * p.sets(); }
  Statistics(const Problem& p, const Tensor& data)
      : coefficients(data.data<double>()),
        mean(coefficients + 3 * p.tables() * p.maps.channels),
        rstd(mean + p.sets()) {}
  double* table(const Problem& p, std::int64_t n) const {
    return coefficients + (p.batch ? 0 : n) * 3 * p.maps.channels;
  }
};

// The maps of a set: those of samples n0 to n1 and channels c0 to c1.
struct Maps {
  std::int64_t n0, n1, c0, c1;
};
Maps maps_of(const Problem& p, std::int64_t set) {
  if (p.batch) return {0, p.maps.samples, set, set + 1};
  const std::int64_t n = set / p.maps.groups, width = p.set_channels(), first = set % p.maps.groups * width;
  return {n, n + 1, first, first + width};
}

// The mean as the type in which the pixels are computed holds it.
double pivot_of(const Problem& p, double mean) {
  return p.maps.dtype == f64 ? mean : static_cast<double>(static_cast<float>(mean));
}

// Mean and biased variance of a set, from mean and squared deviations of its maps, [N, 2, C].
std::pair<double, double> merge(const Problem& p, const Maps& set, const Table& moments) {
  const auto over_maps = [&](const auto& term) {
    double sum = 0;
    for (std::int64_t n = set.n0; n < set.n1; ++n)
      for (std::int64_t c = set.c0; c < set.c1; ++c) {
        const double* mean = moments.data() + n * 2 * p.maps.channels + c;
        sum += term(mean[0], mean[p.maps.channels]);
      }
    return sum;
  };
  const double maps = static_cast<double>((set.n1 - set.n0) * (set.c1 - set.c0));
  const double pixels = static_cast<double>(p.maps.pixels);
  const double centre = over_maps([](double mean, double) { return mean; }) / maps;
  const double squares =
      over_maps([&](double mean, double squared) { return squared + pixels * ((mean - centre) * (mean - centre)); });
  return {centre, squares / (maps * pixels)};
}

Table moments_of_maps(const Problem& p, const Tensor& x) {
  Table moments(static_cast<std::size_t>(p.maps.samples * 2 * p.maps.channels));
  parallel_for(p.maps.samples, [&](std::int64_t n) {
    evo::sample_kernels().moments(p.maps, sample(p, x, n), moments.data() + n * 2 * p.maps.channels);
  });
  return moments;
}

}  // namespace

Tensor forward(Cpu, const Problem& p, const ForwardArguments& f) {
  const Tensor kept = Tensor::empty({Statistics::size(p)}, {.dtype = f64});
  const Statistics statistics(p, kept);
  const Table weight = values(p, f.weight, 1), bias = values(p, f.bias, 0);
  Table running_mean = values(p, f.running_mean, 0), running_var = values(p, f.running_var, 1);
  const Table moments = p.fixed() ? Table() : moments_of_maps(p, f.x);
  const double elements = static_cast<double>(p.set_elements()), momentum = p.maps.momentum;
  for (std::int64_t i = 0; i < p.sets(); ++i) {
    const Maps set = maps_of(p, i);
    const auto channel = static_cast<std::size_t>(set.c0);
    const auto [mean, variance] =
        p.fixed() ? std::pair{running_mean[channel], running_var[channel]} : merge(p, set, moments);
    if (p.batch && p.maps.training) {
      running_mean[channel] += momentum * (mean - running_mean[channel]);
      running_var[channel] += momentum * (variance * (elements / (elements - 1)) - running_var[channel]);
    }
    const double rstd = 1 / std::sqrt(variance + p.maps.eps), pivot = pivot_of(p, mean);
    statistics.mean[i] = mean;
    statistics.rstd[i] = rstd;
    double* const table = statistics.table(p, set.n0);
    for (std::int64_t c = set.c0; c < set.c1; ++c) {
      const double a = weight[static_cast<std::size_t>(c)] * rstd;
      table[c] = a;
      table[p.maps.channels + c] = pivot;
      table[2 * p.maps.channels + c] = bias[static_cast<std::size_t>(c)] + a * (pivot - mean);
    }
  }
  if (p.batch && p.maps.training) {
    store(f.running_mean, running_mean.data());
    store(f.running_var, running_var.data());
  }
  parallel_for(p.maps.samples, [&](std::int64_t n) {
    sample_kernels().forward(p, sample(p, f.x, n), sample(p, f.y, n), statistics.table(p, n));
  });
  return kept;
}

void backward(Cpu, const Problem& p, const BackwardArguments& b) {
  const Statistics statistics(p, b.statistics);
  const std::int64_t channels = p.maps.channels;
  Table sums(static_cast<std::size_t>(p.maps.samples * 2 * channels));
  parallel_for(p.maps.samples, [&](std::int64_t n) {
    sample_kernels().reduce(p, sample(p, b.x, n), sample(p, b.dy, n), statistics.table(p, n),
                            sums.data() + n * 2 * channels);
  });
  Table dweight(static_cast<std::size_t>(channels)), dbias(static_cast<std::size_t>(channels));
  Table tables(static_cast<std::size_t>(p.tables() * 5 * channels));
  const double elements = static_cast<double>(p.set_elements());
  for (std::int64_t i = 0; i < p.sets(); ++i) {
    const Maps set = maps_of(p, i);
    const double* const from = statistics.table(p, set.n0);
    double* const table = tables.data() + (p.batch ? 0 : set.n0) * 5 * channels;
    const double mean = statistics.mean[i], rstd = statistics.rstd[i], pivot = pivot_of(p, mean);
    double sum = 0, product = 0;  // of a du, and of that times (x - mean) / deviation
    for (std::int64_t c = set.c0; c < set.c1; ++c) {
      double du = 0, du_x = 0;
      for (std::int64_t n = set.n0; n < set.n1; ++n) {
        du += sums[static_cast<std::size_t>(n * 2 * channels + c)];
        du_x += sums[static_cast<std::size_t>((n * 2 + 1) * channels + c)];
      }
      const double normal = rstd * (du_x + (pivot - mean) * du);
      dbias[static_cast<std::size_t>(c)] += du;
      dweight[static_cast<std::size_t>(c)] += normal;
      sum += from[c] * du;
      product += from[c] * normal;
    }
    const double slope = p.fixed() ? 0 : -rstd * product / elements;
    const double offset = p.fixed() ? 0 : -sum / elements + slope * (pivot - mean);
    for (std::int64_t c = set.c0; c < set.c1; ++c) {
      for (int k = 0; k < 3; ++k) table[k * channels + c] = from[k * channels + c];
      table[3 * channels + c] = slope;
      table[4 * channels + c] = offset;
    }
  }
  store(b.dweight, dweight.data());
  store(b.dbias, dbias.data());
  if (!b.dx.defined()) return;
  parallel_for(p.maps.samples, [&](std::int64_t n) {
    sample_kernels().backward(p, sample(p, b.x, n), sample(p, b.dy, n), sample(p, b.dx, n),
                              tables.data() + (p.batch ? 0 : n) * 5 * channels);
  });
}

}  // namespace bevel::norm
