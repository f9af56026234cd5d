#include <bevel/core/autograd.h>
#include <bevel/ops/reduction/detail/kernels.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/shape/broadcast_to.h>
#include <bevel/ops/shape/reshape.h>

namespace bevel {

namespace {

using Mask = std::array<bool, Shape::max_rank>;

// The sum over the marked axes, divided by `divisor`, without history.
Tensor reduce_sum(const Tensor& x, const Mask& mask, const Shape& shape, double divisor) {
  const bool floating = is_floating(x.dtype());
  const Tensor result = Tensor::empty(shape, {.dtype = floating ? x.dtype() : Dtype::i64, .device = x.device()});
  const std::vector<ReduceStep> steps = reduce_steps(x.shape(), mask);
  Tensor from = x;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool last = i + 1 == steps.size();
    const Tensor to =
        last ? result
             : Tensor::empty({steps[i].outputs()}, {.dtype = floating ? Dtype::f64 : Dtype::i64, .device = x.device()});
    on(x.device(), [&](auto backend) { detail::sum_step(backend, from, steps[i], to, last ? divisor : 1); });
    from = to;
  }
  return result;
}

// sum / divisor with its history: the gradient is that of the result, divided and spread.
Tensor divided_sum(const char* name, const Tensor& x, const Mask& mask, double divisor, bool keepdim) {
  Tensor result = reduce_sum(x, mask, detail::reduced_shape(x.shape(), mask, keepdim), divisor);
  record(name, result, {x}, {}, [=, shape = x.shape()](const Backward& b) {
    const Tensor kept = reshape(b.grad(), detail::reduced_shape(shape, mask, true));
    // A run of nothing: dividing the gradient is a sum over no axes.
    const Tensor divided = divisor == 1 ? kept : divided_sum("mean", kept, {}, divisor, true);
    return Gradients{broadcast_to(divided, shape)};
  });
  return result;
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, ReduceOptions options) {
  return divided_sum("sum", x, axes.mask(x.shape(), "sum"), 1, options.keepdim);
}

Tensor mean(const Tensor& x, const Axes& axes, ReduceOptions options) {
  require_floating(x, "mean", "x");
  const Mask mask = axes.mask(x.shape(), "mean");
  const auto count = static_cast<double>(detail::reduced_count(x.shape(), mask));
  return divided_sum("mean", x, mask, count, options.keepdim);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int extra = x.rank() - shape.rank();
  bool fits = extra >= 0;
  Mask mask{};
  for (int axis = 0; fits && axis < x.rank(); ++axis) {
    const std::int64_t size = axis < extra ? 1 : shape[axis - extra];
    mask[static_cast<std::size_t>(axis)] = axis < extra || (size == 1 && x.shape()[axis] != 1);
    fits = size == 1 || size == x.shape()[axis];
  }
  require(fits, "sum_to: shape ", shape, " does not broadcast to the shape of x, ", x.shape());
  return reshape(divided_sum("sum_to", x, mask, 1, true), shape);
}

}  // namespace bevel
