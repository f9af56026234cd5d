#include <bevel/core/autograd.h>
#include <bevel/ops/kernel/strided.h>
#include <bevel/ops/shape/concat.h>
#include <bevel/ops/shape/reshape.h>
#include <bevel/ops/shape/slice.h>

#include <vector>

namespace bevel {

namespace {

// The shape of the result, after all checks.
Shape concat_shape(std::span<const Tensor> tensors, int axis) {
  std::int64_t size = 0;
  const Shape& shape = tensors[0].shape();
  for (const Tensor& tensor : tensors) {
    require_same_dtype(tensors[0], tensor, "concat", "the first tensor", "another");
    require_same_device(tensors[0], tensor, "concat", "the first tensor", "another");
    require(tensor.rank() == shape.rank() && tensor.shape().replaced(axis, 0) == shape.replaced(axis, 0),
            "concat: shapes must agree but for axis ", axis, "; the first is ", shape, ", another ", tensor.shape());
    size += tensor.shape()[axis];
  }
  return shape.replaced(axis, size);
}

}  // namespace

Tensor concat(std::span<const Tensor> tensors, int axis) {
  require(!tensors.empty(), "concat: at least one tensor is needed");
  const int index = tensors[0].shape().axis(axis, "concat");
  const Shape shape = concat_shape(tensors, index);
  Tensor result = Tensor::empty(shape, tensors[0].options());
  const std::int64_t outer = shape.product(0, index);
  const std::int64_t inner = shape.product(index + 1, shape.rank());
  const std::int64_t width = size_of(result.dtype());
  std::vector<std::int64_t> bounds{0};
  for (const Tensor& tensor : tensors) {
    const std::int64_t row = tensor.shape()[index] * inner;
    if (tensor.numel() > 0) {
      StridedCopy copy;
      copy.add(outer, row, shape[index] * inner);
      copy.add(row, 1, 1);
      char* const place = static_cast<char*>(result.raw()) + bounds.back() * inner * width;
      on(result.device(), [&](auto backend) { copy_strided(backend, coalesced(copy), tensor.raw(), place, width); });
    }
    bounds.push_back(bounds.back() + tensor.shape()[index]);
  }
  Tensor* const output = &result;
  record("concat", std::span(&output, 1), tensors, std::span<const Tensor>(), [index, bounds](const Backward& b) {
    Gradients gradients(bounds.size() - 1);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (b.needs(static_cast<int>(i))) gradients[i] = slice(b.grad(), index, bounds[i], bounds[i + 1]);
    return gradients;
  });
  return result;
}

Tensor concat(std::initializer_list<Tensor> tensors, int axis) {
  return concat(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

Tensor stack(std::span<const Tensor> tensors, int axis) {
  require(!tensors.empty(), "stack: at least one tensor is needed");
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors) {
    require_same_shape(tensors[0], tensor, "stack", "the first tensor", "another");
    rows.push_back(unsqueeze(tensor, axis));
  }
  return concat(rows, axis);
}

Tensor stack(std::initializer_list<Tensor> tensors, int axis) {
  return stack(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

}  // namespace bevel
