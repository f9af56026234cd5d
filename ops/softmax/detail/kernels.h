// Kernels of softmax.h and cross_entropy.h.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/kernel/math.h>
#include <bevel/ops/kernel/reduce.h>

#include <limits>

namespace bevel::detail {

enum class SoftmaxKind { softmax, log_softmax, log_sum };

// `step` is [outer, size of the axis, inner]. log_sum writes one element for each outer and inner.
void softmax_forward(Cpu, SoftmaxKind kind, const ReduceStep& step, const Tensor& x, const Tensor& out);
void softmax_forward(Cuda, SoftmaxKind kind, const ReduceStep& step, const Tensor& x, const Tensor& out);

// The gradient of x from the output y and its gradient; not for log_sum.
void softmax_backward(Cpu, SoftmaxKind kind, const ReduceStep& step, const Tensor& y, const Tensor& gradient,
                      const Tensor& out);
void softmax_backward(Cuda, SoftmaxKind kind, const ReduceStep& step, const Tensor& y, const Tensor& gradient,
                      const Tensor& out);

// Class numbers, i32 or i64, and what they mean.
struct Targets {
  const void* data;
  bool wide;
  std::int64_t ignore;
  std::int64_t classes;
  double smoothing;

  BEVEL_HD std::int64_t operator[](std::int64_t row) const {
    return wide ? static_cast<const std::int64_t*>(data)[row] : static_cast<const std::int32_t*>(data)[row];
  }
  BEVEL_HD bool ignored(std::int64_t target) const { return target == ignore; }
  BEVEL_HD bool valid(std::int64_t target) const { return target >= 0 && target < classes; }
};

// A row's greatest logit and the logarithm of the sum of exp(logit - greatest).
template <class V>
struct RowStats {
  V greatest;
  V log_sum;
};

// The loss of a row from its stats, the distance logit - greatest of its target, and the sum of all such distances
// (used with smoothing only).
template <class V>
BEVEL_HD V row_loss(const Targets& targets, const RowStats<V>& stats, V target_distance, V distance_sum) {
  const V s = static_cast<V>(targets.smoothing);
  V loss = (V(1) - s) * (stats.log_sum - target_distance);
  if (targets.smoothing != 0) loss += s * (stats.log_sum - distance_sum / static_cast<V>(targets.classes));
  return loss;
}

// Probability less target share for class c.
template <class V>
BEVEL_HD V row_gradient(const Targets& targets, const RowStats<V>& stats, V logit, std::int64_t c,
                        std::int64_t target) {
  const V s = static_cast<V>(targets.smoothing);
  const V share = s / static_cast<V>(targets.classes) + (c == target ? V(1) - s : V(0));
  return math::exp(logit - stats.greatest - stats.log_sum) - share;
}

// rows [N] and stats [N, 2] in the compute dtype of the logits.
void cross_entropy_forward(Cpu, const Tensor& logits, const Targets& targets, const Tensor& rows, const Tensor& stats);
void cross_entropy_forward(Cuda, const Tensor& logits, const Targets& targets, const Tensor& rows, const Tensor& stats);
void cross_entropy_backward(Cpu, const Tensor& logits, const Targets& targets, const Tensor& stats,
                            const Tensor& row_gradients, const Tensor& out);
void cross_entropy_backward(Cuda, const Tensor& logits, const Targets& targets, const Tensor& stats,
                            const Tensor& row_gradients, const Tensor& out);

// out = 1 / number of targets that are not ignored, or 0 where there are none; f32 or f64.
void inverse_count(Cpu, const Tensor& target, std::int64_t ignore, const Tensor& out);
void inverse_count(Cuda, const Tensor& target, std::int64_t ignore, const Tensor& out);

template <class Index>
struct CountReducer {
  using Acc = std::int64_t;
  using Small = std::int64_t;
  std::int64_t ignore;

  BEVEL_HD Acc identity() const { return 0; }
  BEVEL_HD Acc lift(Index x, std::int64_t, std::int64_t) const { return x != ignore ? 1 : 0; }
  BEVEL_HD Acc combine(Acc a, Acc b) const { return a + b; }
  BEVEL_HD Small small(Index x, std::int64_t, std::int64_t) const { return x != ignore ? 1 : 0; }
  BEVEL_HD Small add(Small a, Small b) const { return a + b; }
  BEVEL_HD Acc widen(Small a) const { return a; }
};

struct InverseStore {
  FloatStore store;
  BEVEL_HD void operator()(std::int64_t i, std::int64_t count) const {
    store(i, count > 0 ? 1 / static_cast<double>(count) : 0);
  }
};

template <class Backend>
void inverse_count_on(Backend backend, const Tensor& target, std::int64_t ignore, const Tensor& out) {
  const InverseStore store{{out.raw(), out.dtype()}};
  const ReduceStep step{1, target.numel(), 1};
  if (target.dtype() == i32)
    reduce(backend, target.data<std::int32_t>(), step, CountReducer<std::int32_t>{ignore}, store);
  else
    reduce(backend, target.data<std::int64_t>(), step, CountReducer<std::int64_t>{ignore}, store);
}

}  // namespace bevel::detail
