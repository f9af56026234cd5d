#include <bevel/core/autograd.h>
#include <bevel/ops/shape/reshape.h>

namespace bevel {

Tensor reshape(const Tensor& x, const Shape& shape) {
  require(shape.numel() == x.numel(), "reshape: shape ", shape, " has ", shape.numel(), " elements; x has ", x.numel(),
          ", its shape is ", x.shape());
  if (shape == x.shape()) return x;
  Tensor result = x.view(shape);
  record("reshape", result, {x}, {},
         [from = x.shape()](const Backward& b) { return Gradients{reshape(b.grad(), from)}; });
  return result;
}

Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  std::int64_t known = 1;
  int open = 0;
  for (const std::int64_t size : sizes) {
    require(size >= -1, "reshape: sizes must not be negative, but for one that may be -1; got ", size);
    if (size == -1)
      ++open;
    else
      known *= size;
  }
  require(open <= 1, "reshape: only one size may be -1; got ", open);
  if (open == 0) return reshape(x, Shape(sizes));
  require(known > 0 && x.numel() % known == 0, "reshape: the other sizes, ", known,
          " elements in all, do not divide those of shape ", x.shape());
  std::vector<std::int64_t> filled(sizes);
  for (std::int64_t& size : filled)
    if (size == -1) size = x.numel() / known;
  return reshape(x, Shape(std::span<const std::int64_t>(filled)));
}

Tensor flatten(const Tensor& x, int first, int last) {
  if (x.rank() == 0) return reshape(x, Shape{1});
  const int begin = x.shape().axis(first, "flatten");
  const int end = x.shape().axis(last, "flatten") + 1;
  require(begin < end, "flatten: the first axis, ", first, ", lies behind the last, ", last);
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().begin() + begin);
  sizes.push_back(x.shape().product(begin, end));
  sizes.insert(sizes.end(), x.shape().begin() + end, x.shape().end());
  return reshape(x, Shape(std::span<const std::int64_t>(sizes)));
}

Tensor squeeze(const Tensor& x, int axis) {
  const int index = x.shape().axis(axis, "squeeze");
  require(x.shape()[index] == 1, "squeeze: axis ", axis, " of shape ", x.shape(), " does not have size 1");
  return reshape(x, x.shape().without(index));
}

Tensor squeeze(const Tensor& x) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : x.shape())
    if (size != 1) sizes.push_back(size);
  return reshape(x, Shape(std::span<const std::int64_t>(sizes)));
}

Tensor unsqueeze(const Tensor& x, int axis) {
  const int rank = x.rank();
  require(axis >= -rank - 1 && axis <= rank, "unsqueeze: there is no place ", axis, " in shape ", x.shape());
  return reshape(x, x.shape().inserted(axis < 0 ? axis + rank + 1 : axis, 1));
}

}  // namespace bevel
