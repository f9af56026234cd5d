#include <bevel/ops/pointwise/compare.h>

#include <bevel/core/autograd.h>
#include <bevel/ops/pointwise/cast.h>
#include <bevel/ops/pointwise/detail/compare_kernels.h>

namespace bevel {

namespace {

using pointwise::Compare;

// To a dtype for which there is a kernel; every value keeps its order.
Tensor comparable(const Tensor& x) {
  if (is_half(x.dtype())) return cast(x, f32);
  if (x.dtype() == u8 || x.dtype() == boolean) return cast(x, i32);
  return x;
}

Tensor compare(const char* name, Compare op, const Tensor& a, const Tensor& b) {
  require_same_dtype(a, b, name, "a", "b");
  require_same_device(a, b, name, "a", "b");
  const Tensor out = Tensor::empty(broadcast(a.shape(), b.shape(), name), {.dtype = boolean, .device = a.device()});
  const auto plan = kernel::plan_broadcast<2>(out.shape(), {a.shape(), b.shape()});
  no_grad([&] {
    const Tensor x = comparable(a);
    const Tensor y = comparable(b);
    on(a.device(), [&](auto backend) { pointwise::compare_kernel(backend, op, plan, out, x, y); });
  });
  return out;
}

Tensor logic(const char* name, bool both, const Tensor& a, const Tensor& b) {
  for (const Tensor& x : {a, b}) require(x.dtype() == boolean, name, ": boolean tensors expected; got ", x.dtype());
  require_same_device(a, b, name, "a", "b");
  const Tensor out = Tensor::empty(broadcast(a.shape(), b.shape(), name), a.options());
  const auto plan = kernel::plan_broadcast<2>(out.shape(), {a.shape(), b.shape()});
  on(a.device(), [&](auto backend) { pointwise::logic_kernel(backend, both, plan, out, a, b); });
  return out;
}

Tensor number(double value, const Tensor& like) {
  return Tensor::scalar(value, like.options());
}

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) {
  return compare("eq", Compare::equal, a, b);
}
Tensor ne(const Tensor& a, const Tensor& b) {
  return compare("ne", Compare::unequal, a, b);
}
Tensor lt(const Tensor& a, const Tensor& b) {
  return compare("lt", Compare::less, a, b);
}
Tensor le(const Tensor& a, const Tensor& b) {
  return compare("le", Compare::less_equal, a, b);
}
Tensor gt(const Tensor& a, const Tensor& b) {
  return compare("gt", Compare::less, b, a);
}
Tensor ge(const Tensor& a, const Tensor& b) {
  return compare("ge", Compare::less_equal, b, a);
}

Tensor eq(const Tensor& a, double b) {
  return eq(a, number(b, a));
}
Tensor ne(const Tensor& a, double b) {
  return ne(a, number(b, a));
}
Tensor lt(const Tensor& a, double b) {
  return lt(a, number(b, a));
}
Tensor le(const Tensor& a, double b) {
  return le(a, number(b, a));
}
Tensor gt(const Tensor& a, double b) {
  return gt(a, number(b, a));
}
Tensor ge(const Tensor& a, double b) {
  return ge(a, number(b, a));
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  return logic("logical_and", true, a, b);
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return logic("logical_or", false, a, b);
}
Tensor logical_not(const Tensor& a) {
  require(a.dtype() == boolean, "logical_not: a boolean tensor expected; got ", a.dtype());
  return eq(a, 0.0);
}

}  // namespace bevel
