// EvoNorm on CUDA: the gate in one read where residency() allows; else in two passes over the pictures each way, sums
// and statistics first, values or gradients second.
#include <bevel/ops/evonorm/detail/device_statistics.cuh>
#include <bevel/ops/evonorm/detail/resident.cuh>

#include <initializer_list>

namespace bevel::evo {

namespace {

constexpr int small_threads = 128;

unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>((threads + small_threads - 1) / small_threads);
}

Sizes sizes(const Problem& p, const Tiling& t) {
  return {p.samples, p.pixels,   p.channels, p.groups,       t.splits,   t.split_pixels,
          p.eps,     p.momentum, p.variant,  p.about_zero(), p.training, p.affine};
}

// One call: its problem, cut up, with the types T of the pictures and A of statistics and parameters.
template <class T, int P>
struct Launcher {
  using A = compute_t<T>;
  const Problem& p;
  Cuda backend;
  Tiling t = tiling(p, P);
  Sizes s = sizes(p, t);
  cudaStream_t stream = gpu::stream(backend);

  Tensor workspace(const Shape& shape, Dtype dtype = dtype_of<A>) const {
    return Tensor::empty(shape, {.dtype = dtype, .device = backend.device});
  }
  static A* parameter(const Tensor& tensor) { return tensor.defined() ? tensor.data<A>() : nullptr; }
  static void launched(const char* name) { gpu::check(cudaGetLastError(), name); }

  Tensor moments(const Tensor& x) const {
    const Tensor result = workspace({2, p.samples, t.splits, p.channels}, f64);
    moments_kernel<P><<<t.blocks(P), block_threads, 0, stream>>>(t, x.data<T>(), result.data<double>());
    launched("evonorm: moments_kernel");
    return result;
  }

  template <class Formula>
  void map(const Tensor& x, const Tensor& y, const Tensor& table) const {
    forward_kernel<Formula, P><<<t.blocks(P), block_threads, 0, stream>>>(t, x.data<T>(), y.data<T>(), table.data<A>());
    launched("evonorm: forward_kernel");
  }
  template <class Formula>
  void map(const Tensor& x, const Tensor& dy, const Tensor& dx, const Tensor& table) const {
    backward_kernel<Formula, P>
        <<<t.blocks(P), block_threads, 0, stream>>>(t, x.data<T>(), dy.data<T>(), dx.data<T>(), table.data<A>());
    launched("evonorm: backward_kernel");
  }
  // Sums over runs, [Formula::sums, N, runs, C].
  template <class Formula>
  Tensor reduce(const Tensor& x, const Tensor& dy, const A* table, bool shared) const {
    const Tensor result = workspace({Formula::sums, p.samples, t.splits, p.channels});
    reduce_kernel<Formula, P>
        <<<t.blocks(P), block_threads, 0, stream>>>(t, x.data<T>(), dy.data<T>(), table, shared, result.data<A>());
    launched("evonorm: reduce_kernel");
    return result;
  }
  // Totals over the samples of sums [rows, N, C]; `runs` sums to a sample, [rows, N * runs, C], if given.
  void sum_samples(const Tensor& sums, int runs, const Totals<A>& totals) const {
    Sizes all = s;
    all.samples *= runs;
    const dim3 grid(static_cast<unsigned>((p.channels + column_lanes - 1) / column_lanes),
                    static_cast<unsigned>(sums.size(0)));
    sum_samples_kernel<<<grid, dim3(column_lanes, column_rows), 0, stream>>>(all, sums.data<A>(), totals);
    launched("evonorm: sum_samples_kernel");
  }
  void gate_gradients(const BackwardArguments& b, const Tensor& sums, int runs) const {
    sum_samples(sums, runs, {{b.dgamma.data<A>(), b.dbeta.data<A>(), parameter(b.dv)}, -1, nullptr});
  }

  Statistics gate_forward(const ForwardArguments& f) const {
    const Tensor slice = workspace({3, p.samples, p.groups});
    const Tensor table = workspace({3, p.samples, p.channels});
    const Tensor moment = moments(f.x);
    gate_statistics_kernel<<<blocks_for(p.samples * p.groups * 32), small_threads, 0, stream>>>(
        s, moment.data<double>(), f.gamma.data<A>(), f.beta.data<A>(), parameter(f.v), slice.data<A>(),
        table.data<A>());
    launched("evonorm: gate_statistics_kernel");
    map<GateForward<A>>(f.x, f.y, table);
    return {slice, {}};
  }

  void gate_backward(const BackwardArguments& b) const {
    const Tensor table = workspace({5, p.samples, p.channels}), sums = workspace({3, p.samples, p.channels});
    const Tensor partial = reduce<GateReduce<A>>(b.x, b.dy, parameter(b.v), true);
    gate_slopes_kernel<<<blocks_for(p.samples * p.groups * 32), small_threads, 0, stream>>>(
        s, partial.data<A>(), b.statistics.slice.data<A>(), b.gamma.data<A>(), parameter(b.v), sums.data<A>(),
        table.data<A>());
    launched("evonorm: gate_slopes_kernel");
    if (b.dx.defined()) map<GateBackward<A>>(b.x, b.dy, b.dx, table);
    gate_gradients(b, sums, 1);
  }

  Statistics maximum_forward(const ForwardArguments& f) const {
    const Statistics statistics{workspace({maximum_rows, p.samples, p.channels}), workspace({3, p.channels})};
    const Tensor moment = p.affine ? Tensor() : moments(f.x);
    if (!p.affine && p.training)
      batch_statistics_kernel<<<static_cast<unsigned>((p.channels + column_lanes - 1) / column_lanes),
                                dim3(column_lanes, column_rows), 0, stream>>>(
          s, moment.data<double>(), statistics.batch.data<A>(), parameter(f.running_var));
    else if (!p.affine)
      running_statistics_kernel<<<blocks_for(p.channels), small_threads, 0, stream>>>(s, statistics.batch.data<A>(),
                                                                                      f.running_var.data<A>());
    launched("evonorm: batch_statistics_kernel");
    maximum_statistics_kernel<<<blocks_for(s.maps()), small_threads, 0, stream>>>(
        s, p.affine ? nullptr : moment.data<double>(), statistics.batch.data<A>(), f.gamma.data<A>(), f.beta.data<A>(),
        parameter(f.v), statistics.slice.data<A>());
    launched("evonorm: maximum_statistics_kernel");
    map<MaximumForward<A>>(f.x, f.y, statistics.slice);
    return statistics;
  }

  void maximum_backward(const BackwardArguments& b) const {
    const Tensor partial = reduce<MaximumReduce<A>>(b.x, b.dy, b.statistics.slice.data<A>(), false);
    const Tensor batch_total = workspace({p.channels});
    sum_samples(partial, t.splits,
                {{b.dgamma.data<A>(), b.dbeta.data<A>(), batch_total.data<A>(), nullptr, parameter(b.dv)},
                 4,
                 b.gamma.data<A>()});
    if (!b.dx.defined()) return;
    const Tensor table = workspace({8, p.samples, p.channels});
    maximum_slopes_kernel<<<blocks_for(s.maps()), small_threads, 0, stream>>>(
        s, b.statistics.slice.data<A>(), b.statistics.batch.data<A>(), partial.data<A>(), batch_total.data<A>(),
        table.data<A>());
    launched("evonorm: maximum_slopes_kernel");
    map<MaximumBackward<A>>(b.x, b.dy, b.dx, table);
  }
};

// Bytes, at most 16, by which the addresses of all pictures are divisible.
std::int64_t alignment(std::initializer_list<Tensor> pictures) {
  std::int64_t bytes = 16;
  for (const Tensor& tensor : pictures)
    while (tensor.defined() && reinterpret_cast<std::uintptr_t>(tensor.raw()) % static_cast<std::uintptr_t>(bytes) != 0)
      bytes /= 2;
  return bytes;
}

// Calls f(launcher) with the type of the pictures and the elements of a pack: as many as fill 16 bytes (8 bytes for the
// half types, if need be) where sizes and addresses allow, else 1.
template <class F>
void with_launcher(const Problem& p, Cuda backend, std::initializer_list<Tensor> pictures, const F& f) {
  const gpu::DeviceGuard guard(backend.device);
  const std::int64_t inner = p.layout == Layout::nhwc ? p.channels : p.pixels, bytes = alignment(pictures);
  visit_floating(p.dtype, "evonorm", [&]<class T>() {
    constexpr int full = 16 / static_cast<int>(sizeof(T));
    const auto fits = [&](int pack) { return inner % pack == 0 && bytes % (pack * size_of(p.dtype)) == 0; };
    if (fits(full)) return f(Launcher<T, full>{p, backend});
    if constexpr (full == 8) {
      if (fits(4)) return f(Launcher<T, 4>{p, backend});
    }
    f(Launcher<T, 1>{p, backend});
  });
}

// --- one read ---

// Whether the device runs clusters and the kernels were compiled for it.
bool has_clusters(Cuda backend) {
  int clusters = 0;
  gpu::check(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, backend.device.index),
             "cudaDeviceGetAttribute");
  return clusters != 0 && resident_kernels_know_clusters();
}

Residency residency_here(const Problem& p, Cuda backend, std::initializer_list<Tensor> pictures) {
  if (!p.gate() || p.dtype == f64) return {};
  const gpu::DeviceGuard guard(backend.device);
  return residency(p, alignment(pictures), has_clusters(backend));
}

ResidentSizes resident_sizes(const Problem& p, const Residency& r) {
  const int width = static_cast<int>(p.channels / p.groups);
  int shift = 0;
  while (1 << shift < width) ++shift;
  return {.samples = p.samples,
          .pixels = p.pixels,
          .channels = p.channels,
          .width = width,
          .width_shift = 1 << shift == width ? shift : -1,
          .lanes = r.lanes,
          .maps = r.maps,
          .cluster = r.cluster,
          .eps = static_cast<float>(p.eps),
          .about_zero = p.about_zero()};
}

float* parameter(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<float>() : nullptr;
}

Statistics resident_forward(const Problem& p, Cuda backend, const Residency& r, const ForwardArguments& f) {
  const gpu::DeviceGuard guard(backend.device);
  const Tensor slice = Tensor::empty({3, p.samples, p.groups}, {.device = backend.device});
  const ResidentForward arguments{f.x.raw(),         f.y.raw(),      parameter(f.gamma),
                                  parameter(f.beta), parameter(f.v), parameter(slice)};
  const auto launch = p.layout == Layout::nchw ? resident_forward_nchw : resident_forward_nhwc;
  launch(backend, p.dtype, r, resident_sizes(p, r), arguments);
  return {slice, {}};
}

void resident_backward(const Problem& p, Cuda backend, const Residency& r, const BackwardArguments& b) {
  const gpu::DeviceGuard guard(backend.device);
  const bool nchw = p.layout == Layout::nchw;
  const int runs = nchw ? 1 : r.cluster;
  const Tensor sums = Tensor::empty({3, p.samples * runs, p.channels}, {.device = backend.device});
  const ResidentBackward arguments{b.x.raw(),          b.dy.raw(),     b.dx.defined() ? b.dx.raw() : nullptr,
                                   parameter(b.gamma), parameter(b.v), parameter(b.statistics.slice),
                                   parameter(sums)};
  const auto launch = nchw ? resident_backward_nchw : resident_backward_nhwc;
  launch(backend, p.dtype, r, resident_sizes(p, r), arguments);
  const Launcher<float, 1> small{p, backend};
  small.gate_gradients(b, sums, runs);
}

}  // namespace

Statistics forward(Cuda backend, const Problem& problem, const ForwardArguments& arguments) {
  if (const Residency r = residency_here(problem, backend, {arguments.x, arguments.y}))
    return resident_forward(problem, backend, r, arguments);
  Statistics result;
  with_launcher(problem, backend, {arguments.x, arguments.y}, [&](const auto& launcher) {
    result = problem.gate() ? launcher.gate_forward(arguments) : launcher.maximum_forward(arguments);
  });
  return result;
}

void backward(Cuda backend, const Problem& problem, const BackwardArguments& arguments) {
  if (const Residency r = residency_here(problem, backend, {arguments.x, arguments.dy, arguments.dx}))
    return resident_backward(problem, backend, r, arguments);
  with_launcher(problem, backend, {arguments.x, arguments.dy, arguments.dx}, [&](const auto& launcher) {
    if (problem.gate())
      launcher.gate_backward(arguments);
    else
      launcher.maximum_backward(arguments);
  });
}

}  // namespace bevel::evo
