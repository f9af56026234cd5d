#include <bevel/core/autograd.h>
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/reduction/detail/kernels.h>
#include <bevel/ops/reduction/detail/single_step.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/reduction/var.h>
#include <bevel/ops/shape/reshape.h>

#include <algorithm>

namespace bevel {

Tensor var(const Tensor& x, const Axes& axes, VarOptions options) {
  require_floating(x, "var", "x");
  const auto mask = axes.mask(x.shape(), "var");
  const std::int64_t count = detail::reduced_count(x.shape(), mask);
  const auto divisor = static_cast<double>(std::max<std::int64_t>(count - (options.unbiased ? 1 : 0), 0));
  Tensor result = Tensor::empty(detail::reduced_shape(x.shape(), mask, options.keepdim), x.options());
  const detail::SingleStep single = detail::single_step(x, mask);
  const Tensor centre = Tensor::empty({result.numel()}, {.dtype = f64, .device = x.device()});
  on(x.device(), [&](auto backend) {
    detail::sum_step(backend, single.x, single.step, centre, static_cast<double>(count));
    detail::centred_square_step(backend, single.x, single.step, centre, result, divisor);
  });
  record("var", result, {x}, {x}, [=](const Backward& b) {
    const Tensor input = b.saved(0);
    const Tensor distance = sub(input, mean(input, axes, {.keepdim = true}));
    const Tensor scaled = mul(reshape(b.grad(), detail::reduced_shape(input.shape(), mask, true)), 2 / divisor);
    return Gradients{mul(distance, scaled)};
  });
  return result;
}

}  // namespace bevel
