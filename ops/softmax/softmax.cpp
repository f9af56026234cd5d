#include <bevel/core/autograd.h>
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/shape/reshape.h>
#include <bevel/ops/softmax/detail/kernels.h>
#include <bevel/ops/softmax/softmax.h>

namespace bevel {

namespace {

using detail::SoftmaxKind;

ReduceStep step_along(const Shape& shape, int axis) {
  return {shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.rank())};
}

// The gradient of x: one kernel, or operators where it has to be differentiated again.
Tensor gradient_of(SoftmaxKind kind, const Tensor& y, const Tensor& gradient, int axis) {
  if (grad_enabled()) {
    const ReduceOptions keep{.keepdim = true};
    if (kind == SoftmaxKind::softmax) return mul(y, sub(gradient, sum(mul(gradient, y), axis, keep)));
    return sub(gradient, mul(softmax(y, axis), sum(gradient, axis, keep)));  // softmax(log_softmax(x)) is softmax(x)
  }
  const Tensor result = Tensor::empty(y.shape(), y.options());
  on(y.device(),
     [&](auto backend) { detail::softmax_backward(backend, kind, step_along(y.shape(), axis), y, gradient, result); });
  return result;
}

Tensor softmax_along(const char* name, SoftmaxKind kind, const Tensor& x, int axis) {
  require_floating(x, name, "x");
  const int index = x.shape().axis(axis, name);
  Tensor result = Tensor::empty(x.shape(), x.options());
  on(x.device(),
     [&](auto backend) { detail::softmax_forward(backend, kind, step_along(x.shape(), index), x, result); });
  record(name, result, {x}, {result},
         [kind, index](const Backward& b) { return Gradients{gradient_of(kind, b.saved(0), b.grad(), index)}; });
  return result;
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) {
  return softmax_along("softmax", SoftmaxKind::softmax, x, axis);
}

Tensor log_softmax(const Tensor& x, int axis) {
  return softmax_along("log_softmax", SoftmaxKind::log_softmax, x, axis);
}

Tensor logsumexp(const Tensor& x, int axis, ReduceOptions options) {
  require_floating(x, "logsumexp", "x");
  const int index = x.shape().axis(axis, "logsumexp");
  const Shape kept = x.shape().replaced(index, 1);
  Tensor result = Tensor::empty(options.keepdim ? kept : x.shape().without(index), x.options());
  on(x.device(), [&](auto backend) {
    detail::softmax_forward(backend, SoftmaxKind::log_sum, step_along(x.shape(), index), x, result);
  });
  record("logsumexp", result, {x}, {x},
         [=](const Backward& b) { return Gradients{mul(softmax(b.saved(0), index), reshape(b.grad(), kept))}; });
  return result;
}

}  // namespace bevel
