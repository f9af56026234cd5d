#include <bevel/core/autograd.h>
#include <bevel/core/parallel.h>
#include <bevel/ops/matmul/detail/bias.h>
#include <bevel/ops/matmul/detail/gemm.h>
#include <bevel/ops/matmul/linear.h>
#include <bevel/ops/matmul/matmul.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/shape/reshape.h>

#include <algorithm>

namespace bevel {

namespace detail {

void add_bias(Cpu, const Tensor& y, const Tensor& bias) {
  const std::int64_t channels = bias.numel();
  if (y.numel() == 0) return;
  visit_floating(y.dtype(), "add_bias", [&]<class T>() {
    T* const rows = y.data<T>();
    const T* const values = bias.data<T>();
    const std::int64_t grain = std::max<std::int64_t>(1, (1 << 15) / channels);
    parallel_ranges(y.numel() / channels, grain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        for (std::int64_t c = 0; c < channels; ++c)
          rows[i * channels + c] =
              static_cast<T>(static_cast<compute_t<T>>(rows[i * channels + c]) + static_cast<compute_t<T>>(values[c]));
    });
  });
}

}  // namespace detail

namespace {

// input [rows, in]. One node, so that the bias costs no tensor of its own.
Tensor linear_rows(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const std::int64_t rows = input.size(0);
  const std::int64_t in = weight.size(1);
  const std::int64_t out = weight.size(0);
  Tensor result = Tensor::empty({rows, out}, input.options());
  on(input.device(), [&](auto backend) {
    gemm(backend, detail::Gemm{.dtype = input.dtype(),
                               .result_dtype = input.dtype(),
                               .m = rows,
                               .n = out,
                               .k = in,
                               .a = {.data = input.raw(), .row_stride = in},
                               .b = {.data = weight.raw(), .row_stride = in, .transposed = true},
                               .c = {.data = result.raw(), .row_stride = out}});
    if (bias.defined()) detail::add_bias(backend, result, bias);
  });
  record("linear", result, {input, weight, bias}, {input, weight}, [](const Backward& backward) {
    const Tensor gradient = backward.grad();
    Gradients gradients(3);
    if (backward.needs(0)) gradients[0] = matmul(gradient, backward.saved(1));
    if (backward.needs(1)) gradients[1] = matmul(gradient, backward.saved(0), {.transpose_a = true});
    if (backward.needs(2)) gradients[2] = sum_to(gradient, {gradient.size(1)});
    return gradients;
  });
  return result;
}

}  // namespace

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  require_floating(input, "linear", "input");
  require_rank(weight, 2, "linear", "weight");
  require_same_dtype(input, weight, "linear", "input", "weight");
  require_same_device(input, weight, "linear", "input", "weight");
  const Shape& shape = input.shape();
  require(shape.rank() > 0 && shape[-1] == weight.size(1),
          "linear: the last axis of input must be the last of weight [out, in]; input is ", shape, ", weight is ",
          weight.shape());
  if (bias.defined()) {
    require(bias.shape() == Shape{weight.size(0)}, "linear: bias must be [", weight.size(0), "] for weight ",
            weight.shape(), "; it is ", bias.shape());
    require_same_dtype(input, bias, "linear", "input", "bias");
    require_same_device(input, bias, "linear", "input", "bias");
  }
  const int last = shape.rank() - 1;
  const Tensor rows = reshape(input, {shape.product(0, last), shape[-1]});
  return reshape(linear_rows(rows, weight, bias), shape.replaced(last, weight.size(0)));
}

}  // namespace bevel
