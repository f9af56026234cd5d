#include <bevel/core/autograd.h>
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/reduction/detail/kernels.h>
#include <bevel/ops/reduction/detail/single_step.h>
#include <bevel/ops/reduction/extreme.h>
#include <bevel/ops/shape/reshape.h>

namespace bevel {

namespace {

using Mask = std::array<bool, Shape::max_rank>;

void require_elements(const Tensor& x, const Mask& mask, const Shape& result, const char* function) {
  require(detail::reduced_count(x.shape(), mask) > 0 || result.numel() == 0, function,
          ": there is nothing to choose from; the shape is ", x.shape());
}

// What each element of x gets of the gradient of the extreme one of its run. A constant to autograd.
Tensor tie_weights(const Tensor& x, const Tensor& extreme, const Mask& mask) {
  const detail::SingleStep single = detail::single_step(x, mask);
  const Tensor weights = Tensor::empty(single.x.shape(), x.options());
  on(x.device(), [&](auto backend) { detail::tie_weights_step(backend, single.x, single.step, extreme, weights); });
  return detail::restore_order(weights, single);
}

Tensor extreme(const char* name, bool minimum, const Tensor& x, const Axes& axes, bool keepdim) {
  const Mask mask = axes.mask(x.shape(), name);
  require(x.dtype() != boolean, name, ": not defined for bool");
  Tensor result = Tensor::empty(detail::reduced_shape(x.shape(), mask, keepdim), x.options());
  require_elements(x, mask, result.shape(), name);
  Tensor from = x;
  const std::vector<ReduceStep> steps = reduce_steps(x.shape(), mask);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Tensor to = i + 1 == steps.size() ? result : Tensor::empty({steps[i].outputs()}, x.options());
    on(x.device(), [&](auto backend) { detail::extreme_step(backend, minimum, from, steps[i], to); });
    from = to;
  }
  record(name, result, {x}, {x, result}, [mask](const Backward& b) {
    const Tensor input = b.saved(0);
    const Tensor weights = tie_weights(input, b.saved(1), mask);
    return Gradients{mul(weights, reshape(b.grad(), detail::reduced_shape(input.shape(), mask, true)))};
  });
  return result;
}

Tensor arg_extreme(const char* name, bool minimum, const Tensor& x, const Axes& axes, bool keepdim) {
  const Mask mask = axes.mask(x.shape(), name);
  require(x.dtype() != boolean && x.dtype() != u8, name, ": not defined for ", x.dtype());
  const Tensor result =
      Tensor::empty(detail::reduced_shape(x.shape(), mask, keepdim), {.dtype = Dtype::i64, .device = x.device()});
  require_elements(x, mask, result.shape(), name);
  const std::vector<ReduceStep> steps = reduce_steps(x.shape(), mask);  // one axis or all: always one step
  on(x.device(), [&](auto backend) { detail::arg_extreme_step(backend, minimum, x, steps[0], result); });
  return result;
}

}  // namespace

Tensor max(const Tensor& x, const Axes& axes, ReduceOptions options) {
  return extreme("max", false, x, axes, options.keepdim);
}

Tensor min(const Tensor& x, const Axes& axes, ReduceOptions options) {
  return extreme("min", true, x, axes, options.keepdim);
}

Tensor argmax(const Tensor& x, int axis, ReduceOptions options) {
  return arg_extreme("argmax", false, x, axis, options.keepdim);
}

Tensor argmin(const Tensor& x, int axis, ReduceOptions options) {
  return arg_extreme("argmin", true, x, axis, options.keepdim);
}

Tensor argmax(const Tensor& x) {
  return arg_extreme("argmax", false, x, {}, false);
}

Tensor argmin(const Tensor& x) {
  return arg_extreme("argmin", true, x, {}, false);
}

}  // namespace bevel
