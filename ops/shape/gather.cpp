#include <bevel/core/autograd.h>
#include <bevel/ops/shape/detail/gather_kernels.h>
#include <bevel/ops/shape/gather.h>

namespace bevel {

namespace {

using detail::IndexedRows;
using detail::IndexMeaning;

void require_index(const Tensor& x, const Tensor& index, const char* function) {
  require(index.dtype() == i64 || index.dtype() == i32, function, ": the index must be i64 or i32; it is ",
          index.dtype());
  require_same_device(x, index, function, "x", "the index");
}

Tensor keys_of(const Tensor& index, const IndexMeaning& meaning, const char* function) {
  const Tensor keys = Tensor::empty({index.numel()}, {.dtype = i64, .device = index.device()});
  on(index.device(), [&](auto backend) { detail::make_keys(backend, index, meaning, keys, function); });
  return keys;
}

Tensor add(const char* name, const Tensor& source, const IndexedRows& rows, const Tensor& keys, const Shape& shape);

Tensor take(const char* name, const Tensor& x, const IndexedRows& rows, const Tensor& keys, const Shape& shape) {
  Tensor result = Tensor::empty(shape, x.options());
  on(x.device(), [&](auto backend) { detail::take_rows(backend, x, rows, keys, result); });
  record(name, result, {x}, {keys},
         [=, from = x.shape()](const Backward& b) { return Gradients{add(name, b.grad(), rows, b.saved(0), from)}; });
  return result;
}

// The adjoint of take().
Tensor add(const char* name, const Tensor& source, const IndexedRows& rows, const Tensor& keys, const Shape& shape) {
  Tensor result = Tensor::empty(shape, source.options());
  on(source.device(), [&](auto backend) { detail::add_rows(backend, source, rows, keys, result); });
  record(name, result, {source}, {keys}, [=, from = source.shape()](const Backward& b) {
    return Gradients{take(name, b.grad(), rows, b.saved(0), from)};
  });
  return result;
}

// The keys of an index that has a place for each element, along `axis` of a tensor with `size` elements there.
Tensor flat_keys(const Tensor& index, int axis, std::int64_t size, const char* function) {
  const Shape& shape = index.shape();
  return keys_of(index,
                 {.flat = true, .size = size, .count = shape[axis], .inner = shape.product(axis + 1, shape.rank())},
                 function);
}

}  // namespace

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  const int i = x.shape().axis(axis, "gather");
  require_index(x, index, "gather");
  require(index.rank() == x.rank() && index.shape().replaced(i, 0) == x.shape().replaced(i, 0),
          "gather: the index must have the shape of x but for axis ", axis, "; x is ", x.shape(), ", the index ",
          index.shape());
  const Tensor keys = flat_keys(index, i, x.shape()[i], "gather");
  return take("gather", x, {1, x.numel(), 1}, keys, index.shape());
}

Tensor index_select(const Tensor& x, int axis, const Tensor& index) {
  const int i = x.shape().axis(axis, "index_select");
  require_index(x, index, "index_select");
  require_rank(index, 1, "index_select", "the index");
  const Tensor keys = keys_of(index, {.size = x.shape()[i]}, "index_select");
  const IndexedRows rows{x.shape().product(0, i), x.shape()[i], x.shape().product(i + 1, x.rank())};
  return take("index_select", x, rows, keys, x.shape().replaced(i, index.numel()));
}

Tensor scatter_add(const Tensor& source, int axis, const Tensor& index, std::int64_t size) {
  const int i = source.shape().axis(axis, "scatter_add");
  require_floating(source, "scatter_add", "source");
  require_index(source, index, "scatter_add");
  require_same_shape(source, index, "scatter_add", "source", "index");
  require(size >= 0, "scatter_add: the size must not be negative; got ", size);
  const Tensor keys = flat_keys(index, i, size, "scatter_add");
  const Shape shape = source.shape().replaced(i, size);
  return add("scatter_add", source, {1, shape.numel(), 1}, keys, shape);
}

}  // namespace bevel
