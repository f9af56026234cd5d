#include <bevel/core/autograd.h>
#include <bevel/ops/autocast.h>
#include <bevel/ops/matmul/detail/gemm.h>
#include <bevel/ops/matmul/detail/product.h>
#include <bevel/ops/matmul/matmul.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/shape/reshape.h>

#include <algorithm>

namespace bevel {

namespace {

using detail::Gemm;

Shape batch_of(const Shape& shape) {
  return Shape(std::span(shape.begin(), static_cast<std::size_t>(shape.rank() - 2)));
}

// A run of equal steps through a batch: the step in matrices of each operand is 0 where that operand is broadcast.
struct BatchAxis {
  std::int64_t size, a_step, b_step;
};

// The batch axes, outermost first, neighbours joined wherever one step serves both.
std::vector<BatchAxis> batch_axes(const Shape& a, const Shape& b, const Shape& out) {
  std::vector<BatchAxis> axes;  // innermost first while it is built
  std::int64_t a_step = 1;
  std::int64_t b_step = 1;
  for (int i = 1; i <= out.rank(); ++i) {
    const std::int64_t a_size = i <= a.rank() ? a[-i] : 1;
    const std::int64_t b_size = i <= b.rank() ? b[-i] : 1;
    const BatchAxis axis{out[-i], a_size == 1 ? 0 : a_step, b_size == 1 ? 0 : b_step};
    a_step *= a_size;
    b_step *= b_size;
    if (axis.size == 1) continue;
    if (!axes.empty() && axis.a_step == axes.back().a_step * axes.back().size &&
        axis.b_step == axes.back().b_step * axes.back().size)
      axes.back().size *= axis.size;
    else
      axes.push_back(axis);
  }
  std::reverse(axes.begin(), axes.end());
  return axes;
}

// Calls the backend once for each index of all axes but the innermost, which is the batch of the call.
template <class Backend>
void multiply_batches(Backend backend, Gemm problem, const std::vector<BatchAxis>& axes, std::size_t axis = 0) {
  if (axis == axes.size()) return gemm(backend, problem);
  const BatchAxis& now = axes[axis];
  const std::int64_t a_stride = now.a_step * problem.m * problem.k;
  const std::int64_t b_stride = now.b_step * problem.k * problem.n;
  std::int64_t c_stride = problem.m * problem.n;
  if (axis + 1 == axes.size()) {
    problem.batch = now.size;
    problem.a.batch_stride = a_stride;
    problem.b.batch_stride = b_stride;
    problem.c.batch_stride = c_stride;
    return gemm(backend, problem);
  }
  for (std::size_t inner = axis + 1; inner < axes.size(); ++inner) c_stride *= axes[inner].size;
  const auto advance = [&](detail::GemmOperand& x, std::int64_t stride) {
    x.data = static_cast<char*>(x.data) + stride * size_of(problem.dtype);
  };
  for (std::int64_t i = 0; i < now.size; ++i) {
    multiply_batches(backend, problem, axes, axis + 1);
    advance(problem.a, a_stride);
    advance(problem.b, b_stride);
    advance(problem.c, c_stride);
  }
}

Tensor multiply(const Tensor& a, const Tensor& b, MatmulOptions options);

Tensor summed_to(const Tensor& gradient, const Shape& shape) {
  return gradient.shape() == shape ? gradient : sum_to(gradient, shape);
}

// The product of stacks of matrices; both have two axes or more, and the sizes match.
Tensor stacked(const Tensor& a, const Tensor& b, MatmulOptions options) {
  const bool ta = options.transpose_a;
  const bool tb = options.transpose_b;
  const std::int64_t m = a.size(ta ? -1 : -2);
  const std::int64_t k = a.size(ta ? -2 : -1);
  const std::int64_t n = b.size(tb ? -2 : -1);
  const Shape batch = broadcast(batch_of(a.shape()), batch_of(b.shape()), "matmul");
  Tensor result = Tensor::empty(batch.inserted(batch.rank(), m).inserted(batch.rank() + 1, n), a.options());
  if (result.numel() > 0) {
    const Gemm problem{.dtype = a.dtype(),
                       .result_dtype = a.dtype(),
                       .m = m,
                       .n = n,
                       .k = k,
                       .a = {.data = a.raw(), .row_stride = ta ? m : k, .transposed = ta},
                       .b = {.data = b.raw(), .row_stride = tb ? k : n, .transposed = tb},
                       .c = {.data = result.raw(), .row_stride = n}};
    const auto axes = batch_axes(batch_of(a.shape()), batch_of(b.shape()), batch);
    on(a.device(), [&](auto backend) { multiply_batches(backend, problem, axes); });
  }
  record("matmul", result, {a, b}, {a, b}, [ta, tb](const Backward& backward) {
    const Tensor gradient = backward.grad();
    const Tensor left = backward.saved(0);
    const Tensor right = backward.saved(1);
    Gradients gradients(2);
    if (backward.needs(0))
      gradients[0] = summed_to(ta ? multiply(right, gradient, {.transpose_a = tb, .transpose_b = true})
                                  : multiply(gradient, right, {.transpose_b = !tb}),
                               left.shape());
    if (backward.needs(1))
      gradients[1] = summed_to(tb ? multiply(gradient, left, {.transpose_a = true, .transpose_b = ta})
                                  : multiply(left, gradient, {.transpose_a = !ta}),
                               right.shape());
    return gradients;
  });
  return result;
}

Tensor multiply(const Tensor& a, const Tensor& b, MatmulOptions options) {
  require_floating(a, "matmul", "a");
  require_same_dtype(a, b, "matmul", "a", "b");
  require_same_device(a, b, "matmul", "a", "b");
  require(a.rank() > 0 && b.rank() > 0, "matmul: both operands need at least one axis; a is ", a.shape(), ", b is ",
          b.shape());
  const bool a_is_vector = a.rank() == 1;
  const bool b_is_vector = b.rank() == 1;
  const Tensor left = a_is_vector ? reshape(a, {1, a.size(0)}) : a;
  const Tensor right = b_is_vector ? reshape(b, {b.size(0), 1}) : b;
  const bool ta = options.transpose_a && !a_is_vector;
  const bool tb = options.transpose_b && !b_is_vector;
  const std::int64_t k = left.size(ta ? -2 : -1);
  const std::int64_t k_of_b = right.size(tb ? -1 : -2);
  require(k == k_of_b, "matmul: the sizes summed over differ; a is ", a.shape(), ta ? " transposed" : "", " with ", k,
          ", b is ", b.shape(), tb ? " transposed" : "", " with ", k_of_b);

  Tensor result;
  if (right.rank() == 2 && left.rank() > 2 && !ta) {  // one product instead of many with the same right side
    const Shape& shape = left.shape();
    const Tensor rows = reshape(left, {shape.product(0, shape.rank() - 1), k});
    const Tensor flat = stacked(rows, right, {.transpose_b = tb});
    result = reshape(flat, shape.replaced(shape.rank() - 1, flat.size(1)));
  } else {
    result = stacked(left, right, {.transpose_a = ta, .transpose_b = tb});
  }
  Shape shape = result.shape();
  if (b_is_vector) shape = shape.without(shape.rank() - 1);
  if (a_is_vector) shape = shape.without(shape.rank() - (b_is_vector ? 1 : 2));
  return reshape(result, shape);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options) {
  return multiply(detail::autocast_operand(a), detail::autocast_operand(b), options);
}

Tensor detail::product(const Tensor& a, const Tensor& b, MatmulOptions options) {
  return multiply(a, b, options);
}

}  // namespace bevel
