#include <bevel/core/autograd.h>
#include <bevel/ops/kernel/strided.h>
#include <bevel/ops/shape/permute.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace bevel {

namespace {

// Whether axes of size above 1 stay in their order, so that no element moves.
bool moves_nothing(const Shape& shape, std::span<const int> order) {
  int previous = -1;
  for (const int axis : order) {
    if (shape[axis] == 1) continue;
    if (axis < previous) return false;
    previous = axis;
  }
  return true;
}

}  // namespace

Tensor permute(const Tensor& x, std::span<const int> order) {
  const int rank = x.rank();
  require(static_cast<int>(order.size()) == rank, "permute: ", order.size(), " axes were named; the shape is ",
          x.shape());
  std::vector<int> axes;
  std::vector<int> inverse(order.size(), -1);
  std::vector<std::int64_t> sizes;
  for (const int named : order) {
    const int axis = x.shape().axis(named, "permute");
    require(inverse[static_cast<std::size_t>(axis)] < 0, "permute: axis ", named, " of shape ", x.shape(),
            " is named twice");
    inverse[static_cast<std::size_t>(axis)] = static_cast<int>(axes.size());
    axes.push_back(axis);
    sizes.push_back(x.shape()[axis]);
  }
  const Shape shape{std::span<const std::int64_t>(sizes)};

  Tensor result;
  if (moves_nothing(x.shape(), axes)) {
    result = x.view(shape);
  } else {
    result = Tensor::empty(shape, x.options());
    const auto from = dense_strides(x.shape());
    const auto to = dense_strides(shape);
    StridedCopy copy;
    for (int i = 0; i < rank; ++i)
      copy.add(shape[i], from[static_cast<std::size_t>(axes[static_cast<std::size_t>(i)])],
               to[static_cast<std::size_t>(i)]);
    on(x.device(),
       [&](auto backend) { copy_strided(backend, coalesced(copy), x.raw(), result.raw(), size_of(x.dtype())); });
  }
  record("permute", result, {x}, {}, [inverse](const Backward& b) { return Gradients{permute(b.grad(), inverse)}; });
  return result;
}

Tensor permute(const Tensor& x, std::initializer_list<int> order) {
  return permute(x, std::span<const int>(order.begin(), order.size()));
}

Tensor transpose(const Tensor& x, int a, int b) {
  std::vector<int> order;
  for (int axis = 0; axis < x.rank(); ++axis) order.push_back(axis);
  std::swap(order[static_cast<std::size_t>(x.shape().axis(a, "transpose"))],
            order[static_cast<std::size_t>(x.shape().axis(b, "transpose"))]);
  return permute(x, order);
}

Tensor flip(const Tensor& x, int axis) {
  const int flipped = x.shape().axis(axis, "flip");
  Tensor result = Tensor::empty(x.shape(), x.options());
  if (x.numel() > 0) {
    const auto strides = dense_strides(x.shape());
    StridedCopy copy;
    for (int i = 0; i < x.rank(); ++i) {
      const std::int64_t stride = strides[static_cast<std::size_t>(i)];
      copy.add(x.shape()[i], i == flipped ? -stride : stride, stride);
    }
    const std::int64_t start = (x.shape()[flipped] - 1) * strides[static_cast<std::size_t>(flipped)];
    const char* from = static_cast<const char*>(x.raw()) + start * size_of(x.dtype());
    on(x.device(),
       [&](auto backend) { copy_strided(backend, coalesced(copy), from, result.raw(), size_of(x.dtype())); });
  }
  record("flip", result, {x}, {}, [flipped](const Backward& b) { return Gradients{flip(b.grad(), flipped)}; });
  return result;
}

}  // namespace bevel
