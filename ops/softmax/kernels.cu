#include <bevel/ops/softmax/detail/kernels.h>
#include <bevel/ops/kernel/reduce.cuh>

namespace bevel::detail {

namespace {

constexpr int threads = reduce_threads;

// A row of [outer, size, inner], and how the block is shared out: `width` threads a row. With inner > 1 a thread has a
// row of its own, so that neighbours read neighbours.
struct Rows {
  std::int64_t count;
  std::int64_t size;
  std::int64_t inner;
  int width;

  __device__ __forceinline__ std::int64_t first_element(std::int64_t row) const {
    return row / inner * size * inner + row % inner;
  }
};

Rows rows_of(const ReduceStep& step) {
  return {step.outputs(), step.reduced, step.inner,
          step.inner == 1 ? power_of_two_from((step.reduced + 3) / 4, 1, threads) : 1};
}

unsigned blocks_of(const Rows& rows) {
  const std::int64_t a_block = threads / rows.width;
  return static_cast<unsigned>(std::min((rows.count + a_block - 1) / a_block, reduce_most_blocks));
}

struct Add {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};
struct Greater {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a >= b || a != a ? a : b;
  }
};

// The result of all threads of a row, for all of them. Every thread of the block takes part.
template <class V, class Op>
__device__ __forceinline__ V reduce_group(V value, V* shared, int width, Op op) {
  const int thread = static_cast<int>(threadIdx.x);
  const int rank = thread & (width - 1);
  shared[thread] = value;
  for (int half = width / 2; half > 0; half /= 2) {
    __syncthreads();
    if (rank < half) shared[thread] = op(shared[thread], shared[thread + half]);
  }
  __syncthreads();
  const V result = shared[thread - rank];
  __syncthreads();
  return result;
}

// Greatest element of a row and the sum of exp(x - shift), where `shift` is the greatest, or 0 for an infinite one if
// `finite` is asked for. `size` is 0 for threads without a row.
template <class T, class V>
__device__ __forceinline__ V row_sum(const T* x, std::int64_t size, std::int64_t pitch, int width, bool finite,
                                     V* shared, V& shift) {
  const int rank = static_cast<int>(threadIdx.x) & (width - 1);
  V greatest = -std::numeric_limits<V>::infinity();
  for (std::int64_t c = rank; c < size; c += width) greatest = Greater()(greatest, static_cast<V>(x[c * pitch]));
  shift = reduce_group(greatest, shared, width, Greater());
  if (finite && isinf(shift)) shift = 0;
  V sum = 0;
  for (std::int64_t c = rank; c < size; c += width) sum += math::exp(static_cast<V>(x[c * pitch]) - shift);
  return reduce_group(sum, shared, width, Add());
}

template <class T>
__global__ void __launch_bounds__(threads) softmax_kernel(SoftmaxKind kind, Rows rows, const T* x, T* out) {
  gpu::begin_kernel();
  using V = compute_t<T>;
  __shared__ V shared[threads];
  const int rank = static_cast<int>(threadIdx.x) & (rows.width - 1);
  const int a_block = threads / rows.width;
  for (std::int64_t first = std::int64_t{blockIdx.x} * a_block; first < rows.count;
       first += std::int64_t{gridDim.x} * a_block) {
    const std::int64_t row = first + threadIdx.x / rows.width;
    const bool there = row < rows.count;
    const std::int64_t place = there ? rows.first_element(row) : 0;
    const std::int64_t size = there ? rows.size : 0;
    V shift;
    const V sum =
        row_sum(x + place, size, rows.inner, rows.width, kind == SoftmaxKind::log_sum, static_cast<V*>(shared), shift);
    if (kind == SoftmaxKind::log_sum) {
      if (there && rank == 0) out[row] = static_cast<T>(shift + math::log(sum));
      continue;
    }
    const bool logarithm = kind == SoftmaxKind::log_softmax;
    const V scale = logarithm ? math::log(sum) : V(1) / sum;
    for (std::int64_t c = rank; c < size; c += rows.width) {
      const std::int64_t i = place + c * rows.inner;
      const V distance = static_cast<V>(x[i]) - shift;
      out[i] = static_cast<T>(logarithm ? distance - scale : math::exp(distance) * scale);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    softmax_backward_kernel(SoftmaxKind kind, Rows rows, const T* y, const T* gradient, T* out) {
  gpu::begin_kernel();
  using V = compute_t<T>;
  __shared__ V shared[threads];
  const int rank = static_cast<int>(threadIdx.x) & (rows.width - 1);
  const int a_block = threads / rows.width;
  const bool logarithm = kind == SoftmaxKind::log_softmax;
  for (std::int64_t first = std::int64_t{blockIdx.x} * a_block; first < rows.count;
       first += std::int64_t{gridDim.x} * a_block) {
    const std::int64_t row = first + threadIdx.x / rows.width;
    const std::int64_t place = row < rows.count ? rows.first_element(row) : 0;
    const std::int64_t size = row < rows.count ? rows.size : 0;
    V part = 0;
    for (std::int64_t c = rank; c < size; c += rows.width) {
      const std::int64_t i = place + c * rows.inner;
      const V g = static_cast<V>(gradient[i]);
      part += logarithm ? g : g * static_cast<V>(y[i]);
    }
    const V sum = reduce_group(part, static_cast<V*>(shared), rows.width, Add());
    for (std::int64_t c = rank; c < size; c += rows.width) {
      const std::int64_t i = place + c * rows.inner;
      const V g = static_cast<V>(gradient[i]);
      const V value = static_cast<V>(y[i]);
      out[i] = static_cast<T>(logarithm ? g - math::exp(value) * sum : value * (g - sum));
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads) cross_entropy_kernel(Rows rows, const T* logits, Targets targets,
                                                                compute_t<T>* losses, RowStats<compute_t<T>>* stats) {
  gpu::begin_kernel();
  using V = compute_t<T>;
  __shared__ V shared[threads];
  const int rank = static_cast<int>(threadIdx.x) & (rows.width - 1);
  const int a_block = threads / rows.width;
  for (std::int64_t first = std::int64_t{blockIdx.x} * a_block; first < rows.count;
       first += std::int64_t{gridDim.x} * a_block) {
    const std::int64_t row = first + threadIdx.x / rows.width;
    const bool there = row < rows.count;
    const T* x = logits + (there ? row * rows.size : 0);
    const std::int64_t size = there ? rows.size : 0;
    V shift;
    const V sum = row_sum(x, size, 1, rows.width, false, static_cast<V*>(shared), shift);
    V distances = 0;
    if (targets.smoothing != 0) {
      for (std::int64_t c = rank; c < size; c += rows.width) distances += static_cast<V>(x[c]) - shift;
      distances = reduce_group(distances, static_cast<V*>(shared), rows.width, Add());
    }
    if (!there || rank != 0) continue;
    const RowStats<V> row_stats{shift, math::log(sum)};
    stats[row] = row_stats;
    const std::int64_t target = targets[row];
    if (targets.ignored(target))
      losses[row] = 0;
    else if (targets.valid(target))
      losses[row] = row_loss(targets, row_stats, static_cast<V>(x[target]) - shift, distances);
    else
      losses[row] = std::numeric_limits<V>::quiet_NaN();
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    cross_entropy_backward_kernel(std::int64_t numel, const T* logits, Targets targets,
                                  const RowStats<compute_t<T>>* stats, const compute_t<T>* upstream, T* out) {
  gpu::begin_kernel();
  using V = compute_t<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < numel; i += step) {
    const std::int64_t row = i / targets.classes;
    const std::int64_t target = targets[row];
    V gradient = 0;
    if (targets.valid(target) && !targets.ignored(target))
      gradient = upstream[row] *
                 row_gradient(targets, stats[row], static_cast<V>(logits[i]), i - row * targets.classes, target);
    else if (!targets.ignored(target))
      gradient = std::numeric_limits<V>::quiet_NaN();
    out[i] = static_cast<T>(gradient);
  }
}

gpu::LaunchShape shape_of(Cuda backend, unsigned blocks) {
  return {.blocks = blocks, .threads = threads, .stream = gpu::stream(backend)};
}

}  // namespace

void softmax_forward(Cuda backend, SoftmaxKind kind, const ReduceStep& step, const Tensor& x, const Tensor& out) {
  const Rows rows = rows_of(step);
  if (rows.count == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  visit_floating(x.dtype(), "softmax", [&]<class T>() {
    gpu::launch(softmax_kernel<T>, shape_of(backend, blocks_of(rows)), "softmax", kind, rows, x.data<T>(),
                out.data<T>());
  });
}

void softmax_backward(Cuda backend, SoftmaxKind kind, const ReduceStep& step, const Tensor& y, const Tensor& gradient,
                      const Tensor& out) {
  const Rows rows = rows_of(step);
  if (rows.count == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  visit_floating(y.dtype(), "softmax", [&]<class T>() {
    gpu::launch(softmax_backward_kernel<T>, shape_of(backend, blocks_of(rows)), "softmax_backward", kind, rows,
                y.data<T>(), gradient.data<T>(), out.data<T>());
  });
}

void cross_entropy_forward(Cuda backend, const Tensor& logits, const Targets& targets, const Tensor& losses,
                           const Tensor& stats) {
  const Rows rows = rows_of({losses.numel(), targets.classes, 1});
  if (rows.count == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  visit_floating(logits.dtype(), "cross_entropy", [&]<class T>() {
    using V = compute_t<T>;
    gpu::launch(cross_entropy_kernel<T>, shape_of(backend, blocks_of(rows)), "cross_entropy", rows, logits.data<T>(),
                targets, losses.data<V>(), static_cast<RowStats<V>*>(stats.raw()));
  });
}

void cross_entropy_backward(Cuda backend, const Tensor& logits, const Targets& targets, const Tensor& stats,
                            const Tensor& row_gradients, const Tensor& out) {
  const std::int64_t numel = logits.numel();
  if (numel == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  const auto blocks = static_cast<unsigned>(std::min((numel + threads - 1) / threads, reduce_most_blocks));
  visit_floating(logits.dtype(), "cross_entropy", [&]<class T>() {
    using V = compute_t<T>;
    gpu::launch(cross_entropy_backward_kernel<T>, shape_of(backend, blocks), "cross_entropy_backward", numel,
                logits.data<T>(), targets, static_cast<const RowStats<V>*>(stats.raw()), row_gradients.data<V>(),
                out.data<T>());
  });
}

void inverse_count(Cuda backend, const Tensor& target, std::int64_t ignore, const Tensor& out) {
  inverse_count_on(backend, target, ignore, out);
}

}  // namespace bevel::detail
