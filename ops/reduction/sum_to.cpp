#include <bevel/ops/reduction/sum_to.h>

#include <bevel/core/autograd.h>
#include <bevel/ops/kernel/broadcast.h>
#include <bevel/ops/pointwise/binary.h>

#include <vector>

namespace bevel {

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  require(broadcast(x.shape(), shape, "sum_to") == x.shape(), "sum_to: ", shape, " does not broadcast to ", x.shape());
  const auto plan = kernel::plan_broadcast<1>(x.shape(), {shape});
  std::vector<double> sums(static_cast<std::size_t>(shape.numel()));
  const std::vector<double> values = x.to_vector();
  for (std::int64_t i = 0; i < plan.numel; ++i)
    sums[static_cast<std::size_t>(plan.offset(0, i))] += values[static_cast<std::size_t>(i)];
  Tensor out = visit_floating(x.dtype(), "sum_to", [&]<class T>() {
    std::vector<T> rounded;
    for (const double sum : sums) rounded.push_back(static_cast<T>(static_cast<compute_t<T>>(sum)));
    return Tensor::from_values(shape, rounded, x.options());
  });
  record("sum_to", out, {x}, {}, [from = x.shape(), options = x.options()](const Backward& backward) {
    return Gradients{add(Tensor::zeros(from, options), backward.grad())};
  });
  return out;
}

}  // namespace bevel
