#include <bevel/core/autograd.h>
#include <bevel/core/half_copy.h>
#include <bevel/ops/autocast.h>
#include <bevel/ops/pointwise/cast.h>
#include <bevel/ops/pointwise/detail/cast_kernels.h>

namespace bevel {

namespace {
thread_local Dtype current = f32;
}

Autocast::Autocast(Dtype dtype) : previous_(current) {
  require(dtype == f32 || is_half(dtype), "Autocast: bf16, f16 or f32 (off) expected; got ", dtype);
  current = dtype;
}
Autocast::~Autocast() {
  current = previous_;
}

Dtype autocast_dtype() {
  return current;
}

namespace detail {

namespace {

void convert(const Tensor& from, const Tensor& to) {
  on(from.device(), [&](auto backend) { pointwise::cast_kernel(backend, to, from); });
}

// The parameter's copy in `dtype`, made now or kept from before, as an operator's output.
Tensor rounded_parameter(const Tensor& parameter, Dtype dtype) {
  Tensor copy = find_half_copy(parameter, dtype);
  if (!copy.defined()) {
    copy = no_grad([&] { return cast(parameter.detach(), dtype); });
    keep_half_copy(parameter, copy, convert);
  }
  Tensor result = copy.detach();
  record("cast", result, {parameter}, {}, [](const Backward& b) { return Gradients{cast(b.grad(), f32)}; });
  return result;
}

}  // namespace

Tensor autocast_operand(const Tensor& x) {
  if (current == f32 || !x.defined() || x.dtype() != f32) return x;
  if (x.is_leaf() && x.requires_grad()) return rounded_parameter(x, current);
  return cast(x, current);
}

Tensor autocast_loss_input(const Tensor& x) {
  if (current == f32 || !x.defined() || !is_half(x.dtype())) return x;
  return cast(x, f32);
}

}  // namespace detail

}  // namespace bevel
