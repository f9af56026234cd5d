#include <bevel/core/autograd.h>
#include <bevel/ops/kernel/strided.h>
#include <bevel/ops/shape/concat.h>
#include <bevel/ops/shape/reshape.h>
#include <bevel/ops/shape/slice.h>

#include <algorithm>
#include <numeric>

namespace bevel {

namespace {

// Copies between `part` and the elements begin, begin + step, ... along `axis` of `whole`.
void copy_part(const Tensor& whole, const Tensor& part, int axis, std::int64_t begin, std::int64_t step, bool into) {
  const auto whole_strides = dense_strides(whole.shape());
  const auto part_strides = dense_strides(part.shape());
  StridedCopy copy;
  for (int i = 0; i < part.rank(); ++i) {
    const std::int64_t whole_stride = whole_strides[static_cast<std::size_t>(i)] * (i == axis ? step : 1);
    const std::int64_t part_stride = part_strides[static_cast<std::size_t>(i)];
    copy.add(part.shape()[i], into ? part_stride : whole_stride, into ? whole_stride : part_stride);
  }
  if (part.numel() == 0) return;
  char* const place =
      static_cast<char*>(whole.raw()) + begin * whole_strides[static_cast<std::size_t>(axis)] * size_of(whole.dtype());
  on(whole.device(), [&](auto backend) {
    if (into)
      copy_strided(backend, coalesced(copy), part.raw(), place, size_of(whole.dtype()));
    else
      copy_strided(backend, coalesced(copy), place, part.raw(), size_of(whole.dtype()));
  });
}

// The part without history.
Tensor take_part(const Tensor& x, int axis, std::int64_t begin, std::int64_t size, std::int64_t step) {
  const Shape shape = x.shape().replaced(axis, size);
  if (step == 1 && x.shape().product(0, axis) == 1)
    return x.view(shape, shape.numel() == 0 ? 0 : begin * x.shape().product(axis + 1, x.rank()));
  const Tensor part = Tensor::empty(shape, x.options());
  copy_part(x, part, axis, begin, step, false);
  return part;
}

}  // namespace

Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
  const int index = x.shape().axis(axis, "slice");
  const std::int64_t size = x.shape()[index];
  const std::int64_t first = begin < 0 ? begin + size : begin;
  const std::int64_t last = end == to_the_end ? size : end < 0 ? end + size : end;
  require(step >= 1, "slice: step must be at least 1; got ", step);
  require(0 <= first && first <= last && last <= size, "slice: elements ", begin, " to ", end, " of axis ", axis,
          " are not a part of shape ", x.shape());
  Tensor result = take_part(x, index, first, (last - first + step - 1) / step, step);
  record("slice", result, {x}, {}, [=, shape = x.shape()](const Backward& b) {
    return Gradients{detail::embed(b.grad(), shape, index, first, step)};
  });
  return result;
}

Tensor detail::embed(const Tensor& x, const Shape& shape, int axis, std::int64_t begin, std::int64_t step) {
  Tensor result = Tensor::zeros(shape, x.options());
  copy_part(result, x, axis, begin, step, true);
  record("embed", result, {x}, {}, [=, size = x.shape()[axis]](const Backward& b) {
    const std::int64_t end = size == 0 ? begin : begin + (size - 1) * step + 1;
    return Gradients{slice(b.grad(), axis, begin, end, step)};
  });
  return result;
}

Tensor select(const Tensor& x, int axis, std::int64_t index) {
  const int i = x.shape().axis(axis, "select");
  const std::int64_t size = x.shape()[i];
  require(index >= -size && index < size, "select: index ", index, " lies outside axis ", axis, " of shape ",
          x.shape());
  const std::int64_t place = index < 0 ? index + size : index;
  return reshape(slice(x, i, place, place + 1), x.shape().without(i));
}

std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, int axis) {
  const int index = x.shape().axis(axis, "split");
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    require(size >= 0, "split: a size must not be negative; got ", size);
    sum += size;
  }
  require(sum == x.shape()[index] && !sizes.empty(), "split: the sizes sum to ", sum, "; axis ", axis, " of shape ",
          x.shape(), " has ", x.shape()[index]);
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(take_part(x, index, begin, size, 1));
    begin += size;
  }
  std::vector<Tensor*> outputs;
  for (Tensor& part : parts) outputs.push_back(&part);
  record("split", std::span<Tensor* const>(outputs), std::span(&x, 1), std::span<const Tensor>(),
         [index, count = static_cast<int>(parts.size())](const Backward& b) {
           std::vector<Tensor> gradients;
           for (int i = 0; i < count; ++i) gradients.push_back(b.grad(i));
           return Gradients{concat(gradients, index)};
         });
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, int axis) {
  require(size >= 1, "split: the size of a part must be at least 1; got ", size);
  const std::int64_t whole = x.shape()[x.shape().axis(axis, "split")];
  std::vector<std::int64_t> sizes;
  for (std::int64_t begin = 0; begin < whole || sizes.empty(); begin += size)
    sizes.push_back(std::min(size, whole - begin));
  return split(x, sizes, axis);
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, int axis) {
  require(count >= 1, "chunk: at least one part is needed; got ", count);
  const std::int64_t size = x.shape()[x.shape().axis(axis, "chunk")];
  return split(x, std::max<std::int64_t>((size + count - 1) / count, 1), axis);
}

}  // namespace bevel
