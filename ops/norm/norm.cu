// Batch and group normalisation on CUDA: two passes over the pictures each way, moments or sums first, values or
// gradients second, with a small kernel between them. The passes are EvoNorm's.
#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/evonorm/detail/packs.h>
#include <bevel/ops/norm/detail/formula.h>
#include <bevel/ops/norm/detail/problem.h>
#include <bevel/ops/norm/detail/device_statistics.cuh>

namespace bevel::norm {

namespace {

constexpr int small_threads = 128;

// In NHWC neighbouring pictures of a batch are one picture of twice the height. So small ones are put together, that a
// block may have more pixels of its channels; the more, where enough blocks are left.
Problem joined(Problem p) {
  if (!p.batch || p.maps.layout != Layout::nhwc) return p;
  const bool large = p.set_elements() * p.maps.channels >= std::int64_t{1} << 23;
  while (p.maps.samples % 2 == 0 && p.maps.pixels < (large ? 512 : 32)) {
    p.maps.samples /= 2;
    p.maps.pixels *= 2;
  }
  return p;
}

evo::Sizes sizes(const Problem& p, const evo::Tiling& t) {
  evo::Sizes s{};
  s.samples = p.maps.samples;
  s.pixels = p.maps.pixels;
  s.channels = p.maps.channels;
  s.groups = p.maps.groups;
  s.splits = t.splits;
  s.split_pixels = t.split_pixels;
  s.eps = p.maps.eps;
  s.momentum = p.maps.momentum;
  s.training = p.maps.training;
  return s;
}

std::int64_t kept_elements(const Problem& p) {
  return 3 * p.tables() * p.maps.channels + 2 * p.sets();
}

// One call: its problem, cut up, with the types T of the pictures and A of statistics and parameters, packs of P
// elements and threads that have K channels.
template <class T, int P, int K>
struct Launcher {
  using A = compute_t<T>;
  const Problem& p;
  Cuda backend;
  evo::Tiling t = evo::tiling(p.maps, P);
  evo::Sizes s = sizes(p, t);

  Tensor workspace(std::int64_t count, Dtype dtype = dtype_of<A>) const {
    return Tensor::empty({count}, {.dtype = dtype, .device = backend.device});
  }
  static A* optional(const Tensor& tensor) { return tensor.defined() ? tensor.data<A>() : nullptr; }
  Kept<A> kept(const Tensor& statistics) const {
    const std::int64_t row = p.tables() * p.maps.channels;
    A* const rstd = statistics.data<A>() + 3 * row;
    return {statistics.data<A>(), row, rstd, rstd + p.sets()};
  }

  // One block for each tile of the pictures.
  template <class... Parameters, class... Arguments>
  void over_tiles(const char* name, void (*kernel)(Parameters...), const Arguments&... arguments) const {
    gpu::launch(kernel, {.blocks = t.blocks(P), .threads = evo::block_threads, .stream = gpu::stream(backend)}, name, t,
                arguments...);
  }
  // One block for each few channels.
  template <class... Parameters, class... Arguments>
  void over_columns(const char* name, unsigned rows, void (*kernel)(Parameters...),
                    const Arguments&... arguments) const {
    const dim3 blocks(static_cast<unsigned>((p.maps.channels + evo::column_lanes - 1) / evo::column_lanes), rows);
    const dim3 threads(evo::column_lanes, evo::column_rows);
    gpu::launch(kernel, {.blocks = blocks, .threads = threads, .stream = gpu::stream(backend)}, name, arguments...);
  }
  // One warp for each group of each sample.
  template <class... Parameters, class... Arguments>
  void over_groups(const char* name, void (*kernel)(Parameters...), const Arguments&... arguments) const {
    const auto blocks = static_cast<unsigned>((p.sets() * 32 + small_threads - 1) / small_threads);
    gpu::launch(kernel, {.blocks = blocks, .threads = small_threads, .stream = gpu::stream(backend)}, name,
                arguments...);
  }

  Tensor moments(const Tensor& x) const {
    const Tensor result = workspace(2 * s.maps() * t.splits, f64);
    over_tiles("norm: moments_kernel", evo::moments_kernel<P, K, T>, x.data<T>(), result.template data<double>());
    return result;
  }

  Tensor forward(const ForwardArguments& f) const {
    const Tensor statistics = workspace(kept_elements(p));
    const Kept<A> rows = kept(statistics);
    const Tensor moment = p.fixed() ? Tensor() : moments(f.x);
    const double* const from = moment.defined() ? moment.data<double>() : nullptr;
    if (p.batch)
      over_columns("norm: batch_statistics_kernel", 1, batch_statistics_kernel<A>, s, from, optional(f.weight),
                   optional(f.bias), optional(f.running_mean), optional(f.running_var), rows);
    else
      over_groups("norm: group_statistics_kernel", group_statistics_kernel<A>, s, from, optional(f.weight),
                  optional(f.bias), rows);
    visit_activation(p.activation, [&]<Activation activation>() {
      over_tiles("norm: forward_kernel", evo::forward_kernel<Forward<A, activation>, P, K, T>, f.x.data<T>(),
                 f.y.data<T>(), rows.rows, p.batch);
    });
    return statistics;
  }

  void backward(const BackwardArguments& b) const {
    const Kept<A> rows = kept(b.statistics);
    const Tensor partial = workspace(2 * s.maps() * t.splits);
    visit_activation(p.activation, [&]<Activation activation>() {
      over_tiles("norm: reduce_kernel", evo::reduce_kernel<Reduce<A, activation>, P, K, T>, b.x.data<T>(),
                 b.dy.data<T>(), rows.rows, p.batch, partial.template data<A>());
    });
    const Tensor table = b.dx.defined() ? workspace(5 * rows.row) : Tensor();
    const Tensor shares = p.batch ? Tensor() : workspace(2 * s.maps());
    if (p.batch)
      over_columns("norm: batch_slopes_kernel", 1, batch_slopes_kernel<A>, s, rows, partial.data<A>(),
                   optional(b.dweight), optional(b.dbias), optional(table));
    else
      over_groups("norm: group_slopes_kernel", group_slopes_kernel<A>, s, rows, partial.data<A>(), shares.data<A>(),
                  optional(table));
    if (b.dx.defined())
      visit_activation(p.activation, [&]<Activation activation>() {
        over_tiles("norm: backward_kernel", evo::backward_kernel<Backward<A, activation>, P, K, T>, b.x.data<T>(),
                   b.dy.data<T>(), b.dx.data<T>(), optional(table), p.batch);
      });
    if (!p.batch && (b.dweight.defined() || b.dbias.defined()))
      over_columns("norm: sum_samples_kernel", 2, evo::sum_samples_kernel<A>, s.samples, s.channels, shares.data<A>(),
                   evo::Totals<A>{{optional(b.dweight), optional(b.dbias), nullptr}});
  }
};

}  // namespace

Tensor forward(Cuda backend, const Problem& problem, const ForwardArguments& f) {
  const gpu::DeviceGuard guard(backend.device);
  const Problem p = joined(problem);
  Tensor statistics;
  evo::visit_packs(p.maps, {array(f.x), array(f.y)},
                   [&]<class T, int P, int K>() { statistics = Launcher<T, P, K>{p, backend}.forward(f); });
  return statistics;
}

void backward(Cuda backend, const Problem& problem, const BackwardArguments& b) {
  const gpu::DeviceGuard guard(backend.device);
  const Problem p = joined(problem);
  evo::visit_packs(p.maps, {array(b.x), array(b.dy), array(b.dx)},
                   [&]<class T, int P, int K>() { Launcher<T, P, K>{p, backend}.backward(b); });
}

}  // namespace bevel::norm
