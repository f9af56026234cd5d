#include <bevel/ops/pointwise/where.h>

#include <bevel/core/autograd.h>
#include <bevel/ops/pointwise/detail/where_kernels.h>
#include <bevel/ops/reduction/sum_to.h>

namespace bevel {

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require(condition.dtype() == boolean, "where: the condition must be boolean; it is ", condition.dtype());
  require_same_dtype(a, b, "where", "a", "b");
  require_same_device(a, b, "where", "a", "b");
  require_same_device(condition, a, "where", "condition", "a");
  const Shape shape = broadcast(condition.shape(), broadcast(a.shape(), b.shape(), "where"), "where");
  Tensor out = Tensor::empty(shape, a.options());
  const auto plan = kernel::plan_broadcast<3>(shape, {condition.shape(), a.shape(), b.shape()});
  on(a.device(), [&](auto backend) { pointwise::where_kernel(backend, plan, out, condition, a, b); });
  record("where", out, {a, b}, {condition}, [sa = a.shape(), sb = b.shape()](const Backward& backward) {
    const Tensor upstream = backward.grad();
    Gradients gradients(2);
    if (backward.needs(0)) gradients[0] = sum_to(where(backward.saved(0), upstream, 0.0), sa);
    if (backward.needs(1)) gradients[1] = sum_to(where(backward.saved(0), 0.0, upstream), sb);
    return gradients;
  });
  return out;
}

Tensor where(const Tensor& condition, const Tensor& a, double b) {
  return where(condition, a, Tensor::scalar(b, a.options()));
}

Tensor where(const Tensor& condition, double a, const Tensor& b) {
  return where(condition, Tensor::scalar(a, b.options()), b);
}

}  // namespace bevel
