#include <bevel/core/autograd.h>
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/pointwise/cast.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/shape/reshape.h>
#include <bevel/ops/softmax/cross_entropy.h>
#include <bevel/ops/softmax/detail/kernels.h>
#include <bevel/ops/softmax/softmax.h>

namespace bevel {

namespace {

detail::Targets targets_of(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  return {target.raw(), target.dtype() == i64, options.ignore_index, logits.size(1), options.label_smoothing};
}

void require_arguments(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  require_floating(logits, "cross_entropy", "logits");
  require_rank(logits, 2, "cross_entropy", "logits");
  require(target.dtype() == i64 || target.dtype() == i32, "cross_entropy: target must be i64 or i32; it is ",
          target.dtype());
  require(target.shape() == Shape{logits.size(0)}, "cross_entropy: logits [N, C] need a target [N]; logits are ",
          logits.shape(), ", target is ", target.shape());
  require_same_device(logits, target, "cross_entropy", "logits", "target");
  require(options.label_smoothing >= 0 && options.label_smoothing <= 1,
          "cross_entropy: label_smoothing must lie between 0 and 1; got ", options.label_smoothing);
  if (target.device().is_cuda()) return;
  const detail::Targets targets = targets_of(logits, target, options);
  for (std::int64_t row = 0; row < target.numel(); ++row)
    require(targets.valid(targets[row]) || targets.ignored(targets[row]), "cross_entropy: target ", targets[row],
            " at row ", row, " is not one of ", targets.classes, " classes");
}

// The gradient of the logits by operators, which can be differentiated again: the target distribution q, and 0 for
// ignored rows, are constants made on the host.
Tensor composed_gradient(const Tensor& logits, const Tensor& target, const Tensor& row_gradients,
                         const CrossEntropyOptions& options) {
  const std::vector<std::int64_t> classes = target.to_vector<std::int64_t>();
  const auto width = static_cast<std::size_t>(logits.size(1));
  std::vector<double> q(classes.size() * width, options.label_smoothing / static_cast<double>(width));
  std::vector<double> mask(classes.size(), 1);
  for (std::size_t row = 0; row < classes.size(); ++row) {
    const std::int64_t target_class = classes[row];
    if (target_class == options.ignore_index) {
      mask[row] = 0;
      continue;
    }
    require(target_class >= 0 && target_class < logits.size(1), "cross_entropy: target ", target_class, " at row ", row,
            " is not one of ", logits.size(1), " classes");
    q[row * width + static_cast<std::size_t>(target_class)] += 1 - options.label_smoothing;
  }
  const auto constant = [&](const Shape& shape, const std::vector<double>& values) {
    return visit_float_double(row_gradients.dtype(), "cross_entropy", [&]<class T>() {
      const std::vector<T> typed(values.begin(), values.end());
      return Tensor::from_values(shape, typed, {.device = logits.device()});
    });
  };
  const Tensor computed = cast(logits, row_gradients.dtype());
  const Tensor difference = sub(softmax(computed, 1), constant(logits.shape(), q));
  const Tensor rows = mul(row_gradients, constant(target.shape(), mask));
  return cast(mul(difference, unsqueeze(rows, 1)), logits.dtype());
}

Tensor row_losses(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  const TensorOptions computed{.dtype = compute_dtype(logits.dtype()), .device = logits.device()};
  Tensor rows = Tensor::empty(target.shape(), computed);
  const Tensor stats = Tensor::empty({logits.size(0), 2}, computed);
  on(logits.device(), [&](auto backend) {
    detail::cross_entropy_forward(backend, logits, targets_of(logits, target, options), rows, stats);
  });
  const auto gradient = [options](const Backward& b) {
    const Tensor x = b.saved(0);
    const Tensor classes = b.saved(1);
    if (grad_enabled()) return Gradients{composed_gradient(x, classes, b.grad(), options)};
    const Tensor result = Tensor::empty(x.shape(), x.options());
    on(x.device(), [&](auto backend) {
      detail::cross_entropy_backward(backend, x, targets_of(x, classes, options), b.saved(2), b.grad(), result);
    });
    return Gradients{result};
  };
  record("cross_entropy", rows, {logits}, {logits, target, stats}, gradient);
  return rows;
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  require_arguments(logits, target, options);
  const Tensor rows = row_losses(logits, target, options);
  if (options.reduction == Reduction::none) return rows;
  if (options.reduction == Reduction::sum) return sum(rows);
  const Tensor inverse = Tensor::empty({}, rows.options());
  on(target.device(), [&](auto backend) { detail::inverse_count(backend, target, options.ignore_index, inverse); });
  return mul(sum(rows), inverse);
}

}  // namespace bevel
