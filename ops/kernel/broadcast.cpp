#include <bevel/ops/kernel/broadcast.h>

namespace bevel::kernel {

namespace {

// The stride of `in` along an axis of the output: 0 where it has size 1 or no such axis.
std::int64_t stride_along(const Shape& in, const Shape& output, int axis) {
  const int own = axis - (output.rank() - in.rank());
  if (own < 0 || in[own] == 1) return 0;
  return in.product(own + 1, in.rank());
}

template <int K>
void classify(Broadcast<K>& plan, int k) {
  int broadcast = 0;  // leading axes along which the input stays
  while (broadcast < plan.rank && plan.stride[k][broadcast] == 0) ++broadcast;
  std::int64_t dense = 1;
  bool suffix = true;
  for (int axis = plan.rank - 1; axis >= broadcast; --axis) {
    suffix = suffix && plan.stride[k][axis] == dense;
    dense *= plan.size[axis];
  }
  plan.period[k] = dense;
  if (plan.rank == 0 || (broadcast == 0 && suffix))
    plan.access[k] = Access::dense;
  else if (broadcast == plan.rank)
    plan.access[k] = Access::scalar;
  else
    plan.access[k] = suffix ? Access::suffix : Access::strided;
}

}  // namespace

template <int K>
Broadcast<K> plan_broadcast(const Shape& output, const std::array<Shape, K>& in) {
  Broadcast<K> plan;
  plan.numel = output.numel();
  for (int axis = 0; axis < output.rank(); ++axis) {
    if (output[axis] == 1) continue;
    std::int64_t strides[K];
    bool joins = plan.rank > 0;  // the axis before this one steps over exactly this one, in every input
    for (int k = 0; k < K; ++k) {
      strides[k] = stride_along(in[static_cast<std::size_t>(k)], output, axis);
      joins = joins && plan.stride[k][plan.rank - 1] == strides[k] * output[axis];
    }
    if (joins)
      plan.size[plan.rank - 1] *= output[axis];
    else
      plan.size[plan.rank++] = output[axis];
    for (int k = 0; k < K; ++k) plan.stride[k][plan.rank - 1] = strides[k];
  }
  for (int k = 0; k < K; ++k) classify(plan, k);
  return plan;
}

template Broadcast<1> plan_broadcast<1>(const Shape&, const std::array<Shape, 1>&);
template Broadcast<2> plan_broadcast<2>(const Shape&, const std::array<Shape, 2>&);
template Broadcast<3> plan_broadcast<3>(const Shape&, const std::array<Shape, 3>&);

}  // namespace bevel::kernel
