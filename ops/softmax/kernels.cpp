#include <bevel/ops/softmax/detail/kernels.h>

#include <algorithm>
#include <cmath>

namespace bevel::detail {

namespace {

constexpr std::int64_t columns = 64;

// Calls f(first element, columns, number of the first column) for blocks of adjacent columns of [outer, size, inner].
template <class F>
void for_columns(const ReduceStep& step, const F& f) {
  if (step.outputs() == 0) return;
  const std::int64_t width = std::min(step.inner, columns);
  const std::int64_t blocks = (step.inner + width - 1) / width;
  const std::int64_t grain =
      std::max<std::int64_t>(reduce_tile / 4 / std::max<std::int64_t>(step.reduced * width, 1), 1);
  parallel_ranges(step.outer * blocks, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t o = block / blocks;
      const std::int64_t column = block % blocks * width;
      f(step.reduced > 0 ? o * step.reduced * step.inner + column : 0, std::min(width, step.inner - column),
        o * step.inner + column);
    }
  });
}

template <class T>
void forward_columns(SoftmaxKind kind, const ReduceStep& step, const T* x, T* out, std::int64_t count,
                     std::int64_t output, T* log_sums) {
  using V = compute_t<T>;
  V greatest[columns];
  double sums[columns];
  std::fill_n(greatest, count, -std::numeric_limits<V>::infinity());
  std::fill_n(sums, count, 0.0);
  for (std::int64_t c = 0; c < step.reduced; ++c)
    for (std::int64_t j = 0; j < count; ++j) {
      const V value = x[c * step.inner + j];
      if (!(value <= greatest[j])) greatest[j] = greatest[j] == greatest[j] ? value : greatest[j];  // NaN stays
    }
  if (kind == SoftmaxKind::log_sum)
    for (std::int64_t j = 0; j < count; ++j)
      if (std::isinf(greatest[j])) greatest[j] = 0;
  for (std::int64_t c = 0; c < step.reduced; ++c)
    for (std::int64_t j = 0; j < count; ++j)
      sums[j] += static_cast<double>(math::exp(static_cast<V>(x[c * step.inner + j]) - greatest[j]));
  if (kind == SoftmaxKind::log_sum) {
    for (std::int64_t j = 0; j < count; ++j)
      log_sums[output + j] = static_cast<T>(greatest[j] + static_cast<V>(math::log(sums[j])));
    return;
  }
  const bool logarithm = kind == SoftmaxKind::log_softmax;
  V scale[columns];
  for (std::int64_t j = 0; j < count; ++j) scale[j] = static_cast<V>(logarithm ? math::log(sums[j]) : 1 / sums[j]);
  for (std::int64_t c = 0; c < step.reduced; ++c)
    for (std::int64_t j = 0; j < count; ++j) {
      const V distance = static_cast<V>(x[c * step.inner + j]) - greatest[j];
      out[c * step.inner + j] = static_cast<T>(logarithm ? distance - scale[j] : math::exp(distance) * scale[j]);
    }
}

template <class T>
void backward_columns(SoftmaxKind kind, const ReduceStep& step, const T* y, const T* gradient, T* out,
                      std::int64_t count) {
  using V = compute_t<T>;
  const bool logarithm = kind == SoftmaxKind::log_softmax;
  double sums[columns];
  std::fill_n(sums, count, 0.0);
  for (std::int64_t c = 0; c < step.reduced; ++c)
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t i = c * step.inner + j;
      const V g = gradient[i];
      sums[j] += static_cast<double>(logarithm ? g : g * static_cast<V>(y[i]));
    }
  for (std::int64_t c = 0; c < step.reduced; ++c)
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t i = c * step.inner + j;
      const V g = gradient[i];
      const V value = y[i];
      const V sum = static_cast<V>(sums[j]);
      out[i] = static_cast<T>(logarithm ? g - math::exp(value) * sum : value * (g - sum));
    }
}

}  // namespace

void softmax_forward(Cpu, SoftmaxKind kind, const ReduceStep& step, const Tensor& x, const Tensor& out) {
  visit_floating(x.dtype(), "softmax", [&]<class T>() {
    const T* from = x.data<T>();
    T* to = out.data<T>();
    for_columns(step, [&](std::int64_t place, std::int64_t count, std::int64_t output) {
      forward_columns(kind, step, from + place, kind == SoftmaxKind::log_sum ? nullptr : to + place, count, output, to);
    });
  });
}

void softmax_backward(Cpu, SoftmaxKind kind, const ReduceStep& step, const Tensor& y, const Tensor& gradient,
                      const Tensor& out) {
  visit_floating(y.dtype(), "softmax", [&]<class T>() {
    const T* values = y.data<T>();
    const T* gradients = gradient.data<T>();
    T* to = out.data<T>();
    for_columns(step, [&](std::int64_t place, std::int64_t count, std::int64_t) {
      backward_columns(kind, step, values + place, gradients + place, to + place, count);
    });
  });
}

void cross_entropy_forward(Cpu, const Tensor& logits, const Targets& targets, const Tensor& rows, const Tensor& stats) {
  visit_floating(logits.dtype(), "cross_entropy", [&]<class T>() {
    using V = compute_t<T>;
    const T* x = logits.data<T>();
    V* losses = rows.data<V>();
    auto* const kept = static_cast<RowStats<V>*>(stats.raw());
    const std::int64_t classes = targets.classes;
    for_columns({rows.numel(), classes, 1}, [&](std::int64_t place, std::int64_t, std::int64_t row) {
      const T* logit = x + place;
      V greatest = -std::numeric_limits<V>::infinity();
      for (std::int64_t c = 0; c < classes; ++c) {
        const V value = logit[c];
        if (!(value <= greatest)) greatest = greatest == greatest ? value : greatest;
      }
      double sum = 0;
      double distance_sum = 0;
      for (std::int64_t c = 0; c < classes; ++c) {
        const V distance = static_cast<V>(logit[c]) - greatest;
        sum += static_cast<double>(math::exp(distance));
        distance_sum += static_cast<double>(distance);
      }
      kept[row] = {greatest, static_cast<V>(math::log(sum))};
      const std::int64_t target = targets[row];
      losses[row] = targets.ignored(target) ? V(0)
                                            : row_loss(targets, kept[row], static_cast<V>(logit[target]) - greatest,
                                                       static_cast<V>(distance_sum));
    });
  });
}

void cross_entropy_backward(Cpu, const Tensor& logits, const Targets& targets, const Tensor& stats,
                            const Tensor& row_gradients, const Tensor& out) {
  visit_floating(logits.dtype(), "cross_entropy", [&]<class T>() {
    using V = compute_t<T>;
    const T* x = logits.data<T>();
    const auto* const kept = static_cast<const RowStats<V>*>(stats.raw());
    const V* upstream = row_gradients.data<V>();
    T* to = out.data<T>();
    const std::int64_t classes = targets.classes;
    for_columns({row_gradients.numel(), classes, 1}, [&](std::int64_t place, std::int64_t, std::int64_t row) {
      const std::int64_t target = targets[row];
      for (std::int64_t c = 0; c < classes; ++c) {
        const V gradient =
            targets.ignored(target)
                ? V(0)
                : upstream[row] * row_gradient(targets, kept[row], static_cast<V>(x[place + c]), c, target);
        to[place + c] = static_cast<T>(gradient);
      }
    });
  });
}

void inverse_count(Cpu backend, const Tensor& target, std::int64_t ignore, const Tensor& out) {
  inverse_count_on(backend, target, ignore, out);
}

}  // namespace bevel::detail
