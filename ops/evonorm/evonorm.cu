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

// Hands out pieces of a call's workspace.
class Arena {
 public:
  explicit Arena(const raw::OnStream& where)
      : data_(static_cast<char*>(where.workspace)), bytes_(where.workspace_bytes) {}

  Array take(std::int64_t count, Dtype dtype) {
    const std::size_t first = used_;
    used_ += (static_cast<std::size_t>(count * size_of(dtype)) + 255) / 256 * 256;
    require(data_ && used_ <= bytes_, "raw::evonorm: the workspace of ", bytes_, " bytes is too small");
    return data_ + first;
  }

 private:
  char* data_;
  std::size_t bytes_;
  std::size_t used_ = 0;
};

// One call: its problem, cut up, with the types T of the pictures and A of statistics and parameters.
template <class T, int P>
struct Launcher {
  using A = compute_t<T>;
  const Problem& p;
  raw::OnStream where;
  Tiling t = tiling(p, P);
  Sizes s = sizes(p, t);
  cudaStream_t stream = static_cast<cudaStream_t>(where.stream);
  mutable Arena arena{where};

  Array workspace(std::int64_t count, Dtype dtype = dtype_of<A>) const { return arena.take(count, dtype); }
  static A* parameter(const Array& array) { return array.data<A>(); }
  static void launched(const char* name) { gpu::check(cudaGetLastError(), name); }

  Array moments(const Array& x) const {
    const Array result = workspace(2 * p.samples * t.splits * p.channels, f64);
    moments_kernel<P><<<t.blocks(P), block_threads, 0, stream>>>(t, x.data<T>(), result.data<double>());
    launched("evonorm: moments_kernel");
    return result;
  }

  template <class Formula>
  void map(const Array& x, const Array& y, const Array& table) const {
    forward_kernel<Formula, P><<<t.blocks(P), block_threads, 0, stream>>>(t, x.data<T>(), y.data<T>(), table.data<A>());
    launched("evonorm: forward_kernel");
  }
  template <class Formula>
  void map(const Array& x, const Array& dy, const Array& dx, const Array& table) const {
    backward_kernel<Formula, P>
        <<<t.blocks(P), block_threads, 0, stream>>>(t, x.data<T>(), dy.data<T>(), dx.data<T>(), table.data<A>());
    launched("evonorm: backward_kernel");
  }
  // Sums over runs, [Formula::sums, N, runs, C].
  template <class Formula>
  Array reduce(const Array& x, const Array& dy, const A* table, bool shared) const {
    const Array result = workspace(Formula::sums * p.samples * t.splits * p.channels);
    reduce_kernel<Formula, P>
        <<<t.blocks(P), block_threads, 0, stream>>>(t, x.data<T>(), dy.data<T>(), table, shared, result.data<A>());
    launched("evonorm: reduce_kernel");
    return result;
  }
  // Totals over the samples of sums [rows, N, C]; `runs` sums to a sample, [rows, N * runs, C], if given.
  void sum_samples(const Array& sums, int rows, int runs, const Totals<A>& totals) const {
    Sizes all = s;
    all.samples *= runs;
    const dim3 grid(static_cast<unsigned>((p.channels + column_lanes - 1) / column_lanes), static_cast<unsigned>(rows));
    sum_samples_kernel<<<grid, dim3(column_lanes, column_rows), 0, stream>>>(all, sums.data<A>(), totals);
    launched("evonorm: sum_samples_kernel");
  }
  void gate_gradients(const BackwardArguments& b, const Array& sums, int runs) const {
    sum_samples(sums, GateReduce<A>::sums, runs,
                {{b.dgamma.data<A>(), b.dbeta.data<A>(), parameter(b.dv)}, -1, nullptr});
  }

  void gate_forward(const ForwardArguments& f) const {
    const Array table = workspace(3 * p.samples * p.channels);
    const Array moment = moments(f.x);
    gate_statistics_kernel<<<blocks_for(p.samples * p.groups * 32), small_threads, 0, stream>>>(
        s, moment.data<double>(), f.gamma.data<A>(), f.beta.data<A>(), parameter(f.v), f.statistics.slice.data<A>(),
        table.data<A>());
    launched("evonorm: gate_statistics_kernel");
    map<GateForward<A>>(f.x, f.y, table);
  }

  void gate_backward(const BackwardArguments& b) const {
    const Array table = workspace(5 * p.samples * p.channels), sums = workspace(3 * p.samples * p.channels);
    const Array partial = reduce<GateReduce<A>>(b.x, b.dy, parameter(b.v), true);
    gate_slopes_kernel<<<blocks_for(p.samples * p.groups * 32), small_threads, 0, stream>>>(
        s, partial.data<A>(), b.statistics.slice.data<A>(), b.gamma.data<A>(), parameter(b.v), sums.data<A>(),
        table.data<A>());
    launched("evonorm: gate_slopes_kernel");
    if (b.dx.defined()) map<GateBackward<A>>(b.x, b.dy, b.dx, table);
    gate_gradients(b, sums, 1);
  }

  void maximum_forward(const ForwardArguments& f) const {
    const Statistics& statistics = f.statistics;
    const Array moment = p.affine ? Array() : moments(f.x);
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
  }

  void maximum_backward(const BackwardArguments& b) const {
    const Array partial = reduce<MaximumReduce<A>>(b.x, b.dy, b.statistics.slice.data<A>(), false);
    const Array batch_total = workspace(p.channels);
    sum_samples(partial, MaximumReduce<A>::sums, t.splits,
                {{b.dgamma.data<A>(), b.dbeta.data<A>(), batch_total.data<A>(), nullptr, parameter(b.dv)},
                 4,
                 b.gamma.data<A>()});
    if (!b.dx.defined()) return;
    const Array table = workspace(8 * p.samples * p.channels);
    maximum_slopes_kernel<<<blocks_for(s.maps()), small_threads, 0, stream>>>(
        s, b.statistics.slice.data<A>(), b.statistics.batch.data<A>(), partial.data<A>(), batch_total.data<A>(),
        table.data<A>());
    launched("evonorm: maximum_slopes_kernel");
    map<MaximumBackward<A>>(b.x, b.dy, b.dx, table);
  }
};

// Bytes, at most 16, by which the addresses of all pictures are divisible.
std::int64_t alignment(std::initializer_list<Array> pictures) {
  std::int64_t bytes = 16;
  for (const Array& picture : pictures)
    while (picture.defined() &&
           reinterpret_cast<std::uintptr_t>(picture.raw()) % static_cast<std::uintptr_t>(bytes) != 0)
      bytes /= 2;
  return bytes;
}

// Calls f(launcher) with the type of the pictures and the elements of a pack: as many as fill 16 bytes (8 bytes for the
// half types, if need be) where sizes and addresses allow, else 1.
template <class F>
void with_launcher(const Problem& p, const raw::OnStream& where, std::initializer_list<Array> pictures, const F& f) {
  const std::int64_t inner = p.layout == Layout::nhwc ? p.channels : p.pixels, bytes = alignment(pictures);
  visit_floating(p.dtype, "evonorm", [&]<class T>() {
    constexpr int full = 16 / static_cast<int>(sizeof(T));
    const auto fits = [&](int pack) { return inner % pack == 0 && bytes % (pack * size_of(p.dtype)) == 0; };
    if (fits(full)) return f(Launcher<T, full>{p, where});
    if constexpr (full == 8) {
      if (fits(4)) return f(Launcher<T, 4>{p, where});
    }
    f(Launcher<T, 1>{p, where});
  });
}

// --- one read ---

// Whether the current device runs clusters and the kernels were compiled for it.
bool has_clusters() {
  return gpu::current_device_attribute<cudaDevAttrClusterLaunch>() != 0 && resident_kernels_know_clusters();
}

Residency residency_here(const Problem& p, std::initializer_list<Array> pictures) {
  if (!p.gate() || p.dtype == f64) return {};
  return residency(p, alignment(pictures), has_clusters());
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

float* parameter(const Array& array) {
  return array.data<float>();
}

void resident_forward(const Problem& p, const raw::OnStream& where, const Residency& r, const ForwardArguments& f) {
  const ResidentForward arguments{f.x.raw(),         f.y.raw(),      parameter(f.gamma),
                                  parameter(f.beta), parameter(f.v), parameter(f.statistics.slice)};
  const auto launch = p.layout == Layout::nchw ? resident_forward_nchw : resident_forward_nhwc;
  launch(where, p.dtype, r, resident_sizes(p, r), arguments);
}

void resident_backward(const Problem& p, const raw::OnStream& where, const Residency& r, const BackwardArguments& b) {
  const bool nchw = p.layout == Layout::nchw;
  const int runs = nchw ? 1 : r.cluster;
  const Launcher<float, 1> small{p, where};
  const Array sums = small.workspace(3 * p.samples * runs * p.channels);
  const ResidentBackward arguments{b.x.raw(),          b.dy.raw(),     b.dx.raw(),
                                   parameter(b.gamma), parameter(b.v), parameter(b.statistics.slice),
                                   parameter(sums)};
  const auto launch = nchw ? resident_backward_nchw : resident_backward_nhwc;
  launch(where, p.dtype, r, resident_sizes(p, r), arguments);
  small.gate_gradients(b, sums, runs);
}

Statistics statistics_at(const Problem& p, const void* data) {
  const Array start(data);
  if (p.gate()) return {start, {}};
  const std::int64_t bytes = maximum_rows * p.samples * p.channels * size_of(compute_dtype(p.dtype));
  return {start, start.data<char>() + bytes};
}

// The most runs that a map is cut into, whatever packs the addresses allow.
std::int64_t most_runs(const Problem& p) {
  int runs = largest_cluster;
  for (const int pack : {1, 2, 4, 8})
    if (pack == 1 || (p.layout == Layout::nhwc ? p.channels : p.pixels) % pack == 0)
      runs = std::max(runs, tiling(p, pack).splits);
  return runs;
}

}  // namespace

raw::EvoNormMemory memory(const Problem& p) {
  constexpr std::int64_t pieces = 4, rounding = 256;  // of a workspace at most
  const std::int64_t number = size_of(compute_dtype(p.dtype)), maps = p.samples * p.channels, runs = most_runs(p);
  const std::int64_t statistics = p.gate() ? 3 * p.samples * p.groups : maximum_rows * maps + 3 * p.channels;
  const std::int64_t forward = 2 * maps * runs * size_of(f64) + 3 * maps * number;
  const std::int64_t backward = ((8 + 5 * runs) * maps + p.channels) * number;
  const auto bytes = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  return {bytes(statistics * number), bytes(forward + pieces * rounding), bytes(backward + pieces * rounding)};
}

void forward(const raw::OnStream& where, const Problem& problem, const raw::EvoNormForward& arrays) {
  const ForwardArguments f = arguments(arrays, statistics_at(problem, arrays.statistics));
  if (const Residency r = residency_here(problem, {f.x, f.y})) return resident_forward(problem, where, r, f);
  with_launcher(problem, where, {f.x, f.y}, [&](const auto& launcher) {
    if (problem.gate())
      launcher.gate_forward(f);
    else
      launcher.maximum_forward(f);
  });
}

void backward(const raw::OnStream& where, const Problem& problem, const raw::EvoNormBackward& arrays) {
  const BackwardArguments b = arguments(arrays, statistics_at(problem, arrays.statistics));
  if (const Residency r = residency_here(problem, {b.x, b.dy, b.dx})) return resident_backward(problem, where, r, b);
  with_launcher(problem, where, {b.x, b.dy, b.dx}, [&](const auto& launcher) {
    if (problem.gate())
      launcher.gate_backward(b);
    else
      launcher.maximum_backward(b);
  });
}

}  // namespace bevel::evo
