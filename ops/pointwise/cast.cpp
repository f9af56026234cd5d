#include <bevel/ops/pointwise/cast.h>

#include <bevel/core/autograd.h>
#include <bevel/ops/pointwise/detail/cast_kernels.h>

namespace bevel {

namespace {

Tensor convert(const Tensor& x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  if ((is_half(x.dtype()) || is_half(dtype)) && x.dtype() != f32 && dtype != f32)
    return convert(convert(x, f32), dtype);
  const Tensor out = Tensor::empty(x.shape(), {.dtype = dtype, .device = x.device()});
  on(x.device(), [&](auto backend) { pointwise::cast_kernel(backend, out, x); });
  return out;
}

}  // namespace

Tensor cast(const Tensor& x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  Tensor out = convert(x, dtype);
  if (!is_floating(dtype)) return out;
  record("cast", out, {x}, {},
         [from = x.dtype()](const Backward& backward) { return Gradients{cast(backward.grad(), from)}; });
  return out;
}

}  // namespace bevel
