// EvoNorm on CUDA: the gate in one read where residency() allows; else in two passes over the pictures each way, sums
// and statistics first, values or gradients second.
#include <bevel/ops/evonorm/detail/one_read.h>
#include <bevel/ops/evonorm/detail/packs.h>
#include <bevel/ops/evonorm/detail/carveout.cuh>
#include <bevel/ops/evonorm/detail/device_statistics.cuh>

#include <initializer_list>

namespace bevel::evo {

namespace {

constexpr int small_threads = 128;

cudaStream_t stream(const raw::OnStream& where) {
  return static_cast<cudaStream_t>(where.stream);
}

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

// One call: its problem, cut up, with the types T of the pictures and A of statistics and parameters, packs of P
// elements and threads that have K channels.
template <class T, int P, int K>
struct Launcher {
  using A = compute_t<T>;
  const Problem& p;
  raw::OnStream where;
  Tiling t = tiling(p, P);
  Sizes s = sizes(p, t);
  mutable Arena arena{where};

  Array workspace(std::int64_t count, Dtype dtype = dtype_of<A>) const { return arena.take(count, dtype); }
  static A* parameter(const Array& array) { return array.data<A>(); }

  // One block for each tile of the pictures.
  template <class... Parameters, class... Arguments>
  void over_tiles(const char* name, void (*kernel)(Parameters...), const Arguments&... arguments) const {
    gpu::launch(kernel, {.blocks = t.blocks(P), .threads = block_threads, .stream = stream(where)}, name, t,
                arguments...);
  }
  // Blocks for each few channels, `along_y` of them, that go down tables of so many rows.
  template <class... Parameters, class... Arguments>
  void over_columns(const char* name, std::int64_t table_rows, unsigned along_y, void (*kernel)(Parameters...),
                    const Arguments&... arguments) const {
    const auto columns = static_cast<unsigned>((p.channels + column_lanes - 1) / column_lanes);
    const auto rows = static_cast<unsigned>(rows_of_columns(table_rows));
    gpu::launch(kernel,
                {.blocks = dim3(columns, along_y), .threads = dim3(column_lanes, rows), .stream = stream(where)}, name,
                arguments...);
  }
  // Blocks of maximum_slopes_kernel that share out the samples: some 256 in all, if there is a sample for each thread.
  unsigned slope_blocks() const {
    const std::int64_t rows = rows_of_columns(s.runs()), columns = (p.channels + column_lanes - 1) / column_lanes;
    return static_cast<unsigned>(std::clamp<std::int64_t>(256 / columns, 1, (p.samples + rows - 1) / rows));
  }
  // One warp for each group of each sample.
  template <class... Parameters, class... Arguments>
  void over_groups(const char* name, void (*kernel)(Parameters...), const Arguments&... arguments) const {
    gpu::launch(kernel,
                {.blocks = blocks_for(p.samples * p.groups * 32), .threads = small_threads, .stream = stream(where)},
                name, arguments...);
  }

  Array moments(const Array& x) const {
    const Array result = workspace(2 * p.samples * t.splits * p.channels, f64);
    over_tiles("evonorm: moments_kernel", moments_kernel<P, K, T>, x.data<T>(), result.data<double>());
    return result;
  }
  template <class Formula>
  void map(const Array& x, const Array& y, const Array& table) const {
    over_tiles("evonorm: forward_kernel", forward_kernel<Formula, P, K, T>, x.data<T>(), y.data<T>(), table.data<A>(),
               false);
  }
  template <class Formula>
  void map(const Array& x, const Array& dy, const Array& dx, const Array& table) const {
    over_tiles("evonorm: backward_kernel", backward_kernel<Formula, P, K, T>, x.data<T>(), dy.data<T>(), dx.data<T>(),
               table.data<A>(), false);
  }
  // Sums over runs, [Formula::sums, N, runs, C].
  template <class Formula>
  Array reduce(const Array& x, const Array& dy, const A* table, bool shared) const {
    const Array result = workspace(Formula::sums * p.samples * t.splits * p.channels);
    over_tiles("evonorm: reduce_kernel", reduce_kernel<Formula, P, K, T>, x.data<T>(), dy.data<T>(), table, shared,
               result.data<A>());
    return result;
  }
  // Gradients of the parameters from sums [3, N * runs, C].
  void gate_gradients(const BackwardArguments& b, const Array& sums, std::int64_t runs) const {
    prefer_shared_memory(sum_samples_kernel<A>, "evonorm: sum_samples_kernel");
    over_columns("evonorm: sum_samples_kernel", p.samples * runs, parameter(b.dv) != nullptr ? 3 : 2,
                 sum_samples_kernel<A>, p.samples * runs, p.channels, sums.data<A>(),
                 Totals<A>{{b.dgamma.data<A>(), b.dbeta.data<A>(), parameter(b.dv)}});
  }

  void gate_forward(const ForwardArguments& f) const {
    const Array table = workspace(3 * p.samples * p.channels);
    const Array moment = moments(f.x);
    over_groups("evonorm: gate_statistics_kernel", gate_statistics_kernel<A>, s, moment.data<double>(),
                f.gamma.data<A>(), f.beta.data<A>(), parameter(f.v), f.statistics.slice.data<A>(), table.data<A>());
    map<GateForward<A>>(f.x, f.y, table);
  }

  void gate_backward(const BackwardArguments& b) const {
    const Array table = workspace(5 * p.samples * p.channels), sums = workspace(3 * p.samples * p.channels);
    const Array partial = reduce<GateReduce<A>>(b.x, b.dy, parameter(b.v), true);
    over_groups("evonorm: gate_slopes_kernel", gate_slopes_kernel<A>, s, partial.data<A>(),
                b.statistics.slice.data<A>(), b.gamma.data<A>(), parameter(b.v), sums.data<A>(), table.data<A>());
    if (b.dx.defined()) map<GateBackward<A>>(b.x, b.dy, b.dx, table);
    gate_gradients(b, sums, 1);
  }

  void maximum_forward(const ForwardArguments& f) const {
    const Array moment = p.affine ? Array() : moments(f.x);
    over_columns("evonorm: maximum_statistics_kernel", p.samples, 1, maximum_statistics_kernel<A>, s,
                 moment.data<double>(), f.statistics.batch.data<A>(), parameter(f.running_var), f.gamma.data<A>(),
                 f.beta.data<A>(), parameter(f.v), f.statistics.slice.data<A>());
    map<MaximumForward<A>>(f.x, f.y, f.statistics.slice);
  }

  void maximum_backward(const BackwardArguments& b) const {
    const Array partial = reduce<MaximumReduce<A>>(b.x, b.dy, b.statistics.slice.data<A>(), false);
    const Array table = b.dx.defined() ? workspace(8 * p.samples * p.channels) : Array();
    over_columns("evonorm: maximum_slopes_kernel", s.runs(), slope_blocks(), maximum_slopes_kernel<A>, s,
                 b.statistics.slice.data<A>(), b.statistics.batch.data<A>(), b.gamma.data<A>(), partial.data<A>(),
                 b.dgamma.data<A>(), b.dbeta.data<A>(), parameter(b.dv), table.data<A>());
    if (b.dx.defined()) map<MaximumBackward<A>>(b.x, b.dy, b.dx, table);
  }
};

// Calls f(launcher) for these pictures.
template <class F>
void with_launcher(const Problem& p, const raw::OnStream& where, std::initializer_list<Array> pictures, const F& f) {
  visit_packs(p, pictures, [&]<class T, int P, int K>() { f(Launcher<T, P, K>{p, where}); });
}

// --- one read ---

// Whether the current device runs clusters and the kernels were compiled for it.
bool has_clusters() {
  static const bool compiled = one_read_kernels_know_clusters();
  return compiled && gpu::current_device_attribute<cudaDevAttrClusterLaunch>() != 0;
}

Residency residency_here(const Problem& p, Pass pass, std::initializer_list<Array> pictures) {
  if (!p.gate() || p.dtype == f64) return {};
  return residency(p, pass, alignment(pictures), has_clusters());
}

float* parameter(const Array& array) {
  return array.data<float>();
}

void one_read_forward(const Problem& p, const raw::OnStream& where, const Residency& r, const ForwardArguments& f) {
  const OneReadForward arguments{f.x.raw(),         f.y.raw(),      parameter(f.gamma),
                                 parameter(f.beta), parameter(f.v), parameter(f.statistics.slice)};
  const auto launch = p.layout == Layout::nchw ? one_read_forward_nchw : one_read_forward_nhwc;
  launch(where, p.dtype, r, one_read(p, r, Pass::forward), arguments);
}

void one_read_backward(const Problem& p, const raw::OnStream& where, const Residency& r, const BackwardArguments& b) {
  const bool nchw = p.layout == Layout::nchw;
  const int runs = nchw ? 1 : r.cluster;
  const Launcher<float, 1, 1> small{p, where};
  const Array sums = small.workspace(3 * p.samples * runs * p.channels);
  const OneReadBackward arguments{b.x.raw(),          b.dy.raw(),     b.dx.raw(),
                                  parameter(b.gamma), parameter(b.v), parameter(b.statistics.slice),
                                  parameter(sums)};
  const auto launch = nchw ? one_read_backward_nchw : one_read_backward_nhwc;
  launch(where, p.dtype, r, one_read(p, r, Pass::backward), arguments);
  small.gate_gradients(b, sums, runs);
}

Statistics statistics_at(const Problem& p, const void* data) {
  const Array start(data);
  if (p.gate()) return {start, {}};
  const std::int64_t bytes = maximum_rows * p.samples * p.channels * size_of(compute_dtype(p.dtype));
  return {start, start.data<char>() + bytes};
}

// The most runs that two-pass kernels cut a map into, whatever packs the addresses allow.
std::int64_t most_runs(const Problem& p) {
  int runs = 1;
  for (const int pack : {1, 2, 4, 8})
    if (pack == 1 || (p.layout == Layout::nhwc ? p.channels : p.pixels) % pack == 0)
      runs = std::max(runs, tiling(p, pack).splits);
  return runs;
}

// The most blocks that leave sums of one map in backward's one-read kernels.
std::int64_t most_blocks(const Problem& p) {
  if (p.layout == Layout::nchw) return 1;
  constexpr std::int64_t aligned = 16;  // the only packs there in NHWC
  return std::max(
      {1, residency(p, Pass::backward, aligned, false).cluster, residency(p, Pass::backward, aligned, true).cluster});
}

}  // namespace

raw::EvoNormMemory memory(const Problem& p) {
  constexpr std::int64_t pieces = 4, rounding = 256;  // of a workspace at most
  const std::int64_t number = size_of(compute_dtype(p.dtype)), maps = p.samples * p.channels, runs = most_runs(p);
  const std::int64_t statistics = p.gate() ? 3 * p.samples * p.groups : maximum_rows * maps + 3 * p.channels;
  const std::int64_t forward = 2 * maps * runs * size_of(f64) + 3 * maps * number;
  const std::int64_t two_passes = 8 + (p.gate() ? 3 : 5) * runs;
  const std::int64_t backward = (std::max(two_passes, 3 * most_blocks(p)) * maps + p.channels) * number;
  const auto bytes = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  return {bytes(statistics * number), bytes(forward + pieces * rounding), bytes(backward + pieces * rounding)};
}

void forward(const raw::OnStream& where, const Problem& problem, const raw::EvoNormForward& arrays) {
  const ForwardArguments f = arguments(arrays, statistics_at(problem, arrays.statistics));
  if (const Residency r = residency_here(problem, Pass::forward, {f.x, f.y}))
    return one_read_forward(problem, where, r, f);
  with_launcher(problem, where, {f.x, f.y}, [&](const auto& launcher) {
    if (problem.gate())
      launcher.gate_forward(f);
    else
      launcher.maximum_forward(f);
  });
}

void backward(const raw::OnStream& where, const Problem& problem, const raw::EvoNormBackward& arrays) {
  const BackwardArguments b = arguments(arrays, statistics_at(problem, arrays.statistics));
  if (const Residency r = residency_here(problem, Pass::backward, {b.x, b.dy, b.dx}))
    return one_read_backward(problem, where, r, b);
  with_launcher(problem, where, {b.x, b.dy, b.dx}, [&](const auto& launcher) {
    if (problem.gate())
      launcher.gate_backward(b);
    else
      launcher.maximum_backward(b);
  });
}

}  // namespace bevel::evo
