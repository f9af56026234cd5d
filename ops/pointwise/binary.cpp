#include <bevel/ops/pointwise/binary.h>

#include <bevel/ops/kernel/broadcast.h>
#include <bevel/ops/pointwise/detail/binary_kernels.h>
#include <bevel/ops/reduction/sum_to.h>

#include <cmath>

namespace bevel {

void pointwise::require_number(const Tensor& x, double number, const char* function) {
  if (is_floating(x.dtype())) return;
  const double limit = x.dtype() == i64 ? 0x1p63 : 0x1p31;
  require(number == std::floor(number) && number >= -limit && number < limit, function, ": a tensor of ", x.dtype(),
          " needs a whole number in range; got ", number);
}

namespace {

using pointwise::Binary;
using pointwise::Scalar;

Tensor run(const char* name, Binary op, const Tensor& a, const Tensor& b) {
  require_same_dtype(a, b, name, "a", "b");
  require_same_device(a, b, name, "a", "b");
  Tensor out = Tensor::empty(broadcast(a.shape(), b.shape(), name), a.options());
  const auto plan = kernel::plan_broadcast<2>(out.shape(), {a.shape(), b.shape()});
  on(a.device(), [&](auto backend) { pointwise::binary_kernel(backend, op, plan, out, a, b); });
  return out;
}

Tensor run(const char* name, Scalar op, const Tensor& a, double number) {
  pointwise::require_number(a, number, name);
  Tensor out = Tensor::empty(a.shape(), a.options());
  on(a.device(), [&](auto backend) { pointwise::scalar_kernel(backend, op, number, out, a); });
  return out;
}

// maximum and minimum: the gradient goes by the weight of `winner` over `loser`.
Gradients split_by_weight(const Backward& backward, const Tensor& winner, const Tensor& loser) {
  const Tensor upstream = backward.grad();
  const auto part = [&](const Tensor& mine, const Tensor& over, const Tensor& under) {
    const Tensor weight = no_grad([&] { return run("maximum", Binary::greater_weight, over, under); });
    return sum_to(mul(upstream, weight), mine.shape());
  };
  Gradients gradients(2);
  const Tensor a = backward.saved(0);
  const Tensor b = backward.saved(1);
  if (backward.needs(0)) gradients[0] = part(a, winner, loser);
  if (backward.needs(1)) gradients[1] = part(b, loser, winner);
  return gradients;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  Tensor out = run("add", Binary::add, a, b);
  record("add", out, {a, b}, {}, [sa = a.shape(), sb = b.shape()](const Backward& backward) {
    Gradients gradients(2);
    if (backward.needs(0)) gradients[0] = sum_to(backward.grad(), sa);
    if (backward.needs(1)) gradients[1] = sum_to(backward.grad(), sb);
    return gradients;
  });
  return out;
}

Tensor sub(const Tensor& a, const Tensor& b) {
  Tensor out = run("sub", Binary::sub, a, b);
  record("sub", out, {a, b}, {}, [sa = a.shape(), sb = b.shape()](const Backward& backward) {
    Gradients gradients(2);
    if (backward.needs(0)) gradients[0] = sum_to(backward.grad(), sa);
    if (backward.needs(1)) gradients[1] = neg(sum_to(backward.grad(), sb));
    return gradients;
  });
  return out;
}

Tensor mul(const Tensor& a, const Tensor& b) {
  Tensor out = run("mul", Binary::mul, a, b);
  record("mul", out, {a, b}, {a, b}, [](const Backward& backward) {
    const Tensor x = backward.saved(0);
    const Tensor y = backward.saved(1);
    Gradients gradients(2);
    if (backward.needs(0)) gradients[0] = sum_to(mul(backward.grad(), y), x.shape());
    if (backward.needs(1)) gradients[1] = sum_to(mul(backward.grad(), x), y.shape());
    return gradients;
  });
  return out;
}

Tensor div(const Tensor& a, const Tensor& b) {
  Tensor out = run("div", Binary::div, a, b);
  record("div", out, {a, b}, {a, b}, [](const Backward& backward) {
    const Tensor x = backward.saved(0);
    const Tensor y = backward.saved(1);
    const Tensor over = div(backward.grad(), y);
    Gradients gradients(2);
    if (backward.needs(0)) gradients[0] = sum_to(over, x.shape());
    if (backward.needs(1)) gradients[1] = neg(sum_to(mul(over, div(x, y)), y.shape()));
    return gradients;
  });
  return out;
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  Tensor out = run("maximum", Binary::maximum, a, b);
  record("maximum", out, {a, b}, {a, b},
         [](const Backward& backward) { return split_by_weight(backward, backward.saved(0), backward.saved(1)); });
  return out;
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  Tensor out = run("minimum", Binary::minimum, a, b);
  record("minimum", out, {a, b}, {a, b},
         [](const Backward& backward) { return split_by_weight(backward, backward.saved(1), backward.saved(0)); });
  return out;
}

Tensor add(const Tensor& a, double b) {
  Tensor out = run("add", Scalar::add, a, b);
  record("add", out, {a}, {}, [](const Backward& backward) { return Gradients{backward.grad()}; });
  return out;
}

Tensor mul(const Tensor& a, double b) {
  Tensor out = run("mul", Scalar::mul, a, b);
  record("mul", out, {a}, {}, [b](const Backward& backward) { return Gradients{mul(backward.grad(), b)}; });
  return out;
}

Tensor div(const Tensor& a, double b) {
  Tensor out = run("div", Scalar::div, a, b);
  record("div", out, {a}, {}, [b](const Backward& backward) { return Gradients{div(backward.grad(), b)}; });
  return out;
}

Tensor neg(const Tensor& a) {
  return mul(a, -1.0);
}

Tensor operator/(double a, const Tensor& b) {
  require_floating(b, "div", "b");
  return div(Tensor::scalar(a, b.options()), b);
}

Tensor sum_gradients(const Tensor& a, const Tensor& b) {
  return add(a, b);
}

}  // namespace bevel
