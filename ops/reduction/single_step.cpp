#include <bevel/core/autograd.h>
#include <bevel/ops/reduction/axes.h>
#include <bevel/ops/reduction/detail/single_step.h>
#include <bevel/ops/shape/permute.h>

namespace bevel::detail {

SingleStep single_step(const Tensor& x, const std::array<bool, Shape::max_rank>& mask) {
  const std::vector<ReduceStep> steps = reduce_steps(x.shape(), mask);
  if (steps.size() == 1) return {x.detach(), steps[0], {}};
  std::vector<int> order;
  for (const bool reduced : {false, true})
    for (int axis = 0; axis < x.rank(); ++axis)
      if (mask[static_cast<std::size_t>(axis)] == reduced) order.push_back(axis);
  const std::int64_t count = reduced_count(x.shape(), mask);
  const std::int64_t outputs = reduced_shape(x.shape(), mask, false).numel();
  return {permute(x.detach(), order), {outputs, count, 1}, order};
}

Tensor restore_order(const Tensor& moved, const SingleStep& single) {
  if (single.order.empty()) return moved;
  std::vector<int> inverse(single.order.size());
  for (std::size_t i = 0; i < inverse.size(); ++i)
    inverse[static_cast<std::size_t>(single.order[i])] = static_cast<int>(i);
  return permute(moved, inverse);
}

}  // namespace bevel::detail
