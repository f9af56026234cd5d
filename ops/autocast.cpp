#include <bevel/core/autograd.h>
#include <bevel/ops/autocast.h>
#include <bevel/ops/pointwise/cast.h>

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

Tensor autocast_operand(const Tensor& x) {
  if (current == f32 || !x.defined() || x.dtype() != f32) return x;
  return cast(x, current);
}

Tensor autocast_loss_input(const Tensor& x) {
  if (current == f32 || !x.defined() || !is_half(x.dtype())) return x;
  return cast(x, f32);
}

}  // namespace detail

}  // namespace bevel
