#include <bevel/core/autograd.h>
#include <bevel/ops/kernel/strided.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/shape/broadcast_to.h>

namespace bevel {

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int extra = shape.rank() - x.rank();
  const auto from_strides = dense_strides(x.shape());
  const auto to_strides = dense_strides(shape);
  StridedCopy copy;
  bool fits = extra >= 0;
  for (int axis = 0; fits && axis < shape.rank(); ++axis) {
    const std::int64_t size = axis < extra ? 1 : x.shape()[axis - extra];
    fits = size == 1 || size == shape[axis];
    copy.add(shape[axis], size == 1 ? 0 : from_strides[static_cast<std::size_t>(axis - extra)],
             to_strides[static_cast<std::size_t>(axis)]);
  }
  require(fits, "broadcast_to: x of shape ", x.shape(), " does not broadcast to ", shape);
  Tensor result = Tensor::empty(shape, x.options());
  on(x.device(),
     [&](auto backend) { copy_strided(backend, coalesced(copy), x.raw(), result.raw(), size_of(x.dtype())); });
  record("broadcast_to", result, {x}, {},
         [from = x.shape()](const Backward& b) { return Gradients{sum_to(b.grad(), from)}; });
  return result;
}

}  // namespace bevel
