#include <bevel/core/autograd.h>
#include <bevel/core/parallel.h>
#include <bevel/ops/autocast.h>
#include <bevel/ops/matmul/detail/bias.h>
#include <bevel/ops/matmul/detail/gemm.h>
#include <bevel/ops/matmul/detail/product.h>
#include <bevel/ops/matmul/detail/small_linear.h>
#include <bevel/ops/matmul/linear.h>
#include <bevel/ops/pointwise/cast.h>
#include <bevel/ops/pointwise/detail/relu_gradient.h>
#include <bevel/ops/pointwise/unary.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/shape/broadcast_to.h>
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

using detail::Epilogue;
using detail::Gemm;

// y = input weight' + bias, then relu where that is asked for: on CUDA one kernel where cuBLASLt has it.
template <class Backend>
void multiply(Backend backend, const Gemm& problem, const Tensor& result, const Tensor& bias, bool use_relu) {
  if constexpr (std::is_same_v<Backend, Cuda>)
    if (gemm(backend, problem, Epilogue{.bias = bias.defined() ? bias.raw() : nullptr, .relu = use_relu})) return;
  gemm(backend, problem);
  if (bias.defined()) detail::add_bias(backend, result, bias);
  if (use_relu) detail::relu_in_place(result);
}

// The sums of the columns of dy as a by-product of dy' x. False where that is not to be had.
template <class Backend>
bool multiply_and_sum([[maybe_unused]] Backend backend, [[maybe_unused]] const Gemm& problem,
                      [[maybe_unused]] const Tensor& sums) {
  if constexpr (std::is_same_v<Backend, Cuda>)
    return gemm(backend, problem, Epilogue{.sums_of_a = sums.raw()});
  else
    return false;
}

struct ParameterGradients {
  Tensor weight, bias;
};

// dy [rows, out] transposed times x [rows, in], and the sums of dy over its rows where they are wanted; both of dtype
// `dtype`, which is that of dy, or f32 where dy is of a half type. Recorded.
ParameterGradients parameter_gradients(const Tensor& dy, const Tensor& x, Dtype dtype, bool wants_bias) {
  const std::int64_t rows = dy.size(0);
  const std::int64_t out = dy.size(1);
  const std::int64_t in = x.size(1);
  const TensorOptions options{.dtype = dtype, .device = x.device()};
  ParameterGradients result{Tensor::empty({out, in}, options), {}};
  const Gemm problem{.dtype = x.dtype(),
                     .result_dtype = dtype,
                     .m = out,
                     .n = in,
                     .k = rows,
                     .a = {.data = dy.raw(), .row_stride = out, .transposed = true},
                     .b = {.data = x.raw(), .row_stride = in},
                     .c = {.data = result.weight.raw(), .row_stride = in}};
  on(x.device(), [&](auto backend) {
    if (wants_bias) {
      result.bias = Tensor::empty({out}, options);
      if (multiply_and_sum(backend, problem, result.bias)) return;
      result.bias = no_grad([&] { return cast(sum_to(dy, {out}), dtype); });
    }
    gemm(backend, problem);
  });
  const auto backward = [rows, wants_bias](const Backward& b) {
    const Tensor upstream = cast(b.grad(0), b.saved(0).dtype());
    Gradients gradients(2);
    if (b.needs(0)) {
      gradients[0] = detail::product(b.saved(1), upstream, {.transpose_b = true});
      if (wants_bias) {
        const Tensor sums = cast(b.grad(1), upstream.dtype());
        gradients[0] = sum_gradients(gradients[0], broadcast_to(sums, {rows, upstream.size(0)}));
      }
    }
    if (b.needs(1)) gradients[1] = detail::product(b.saved(0), upstream, {});
    return gradients;
  };
  Tensor* const outputs[] = {&result.weight, &result.bias};
  const Tensor inputs[] = {dy, x};
  record("linear_parameter_gradients", std::span(outputs, wants_bias ? 2 : 1), inputs, inputs, backward);
  return result;
}

// Forward and backward of small layers, one kernel each. False where they are not computed so.
bool run_small(const Tensor& input, const Tensor& weight, const Tensor& bias, bool use_relu, const Tensor& result) {
  if (!detail::is_small_linear(input, weight)) return false;
  if constexpr (has_cuda) detail::small_linear(Cuda{input.device()}, input, weight, bias, use_relu, result);
  return has_cuda;
}

bool run_small_backward(const Backward& b, bool use_relu, Gradients& gradients) {
  const Tensor x = b.saved(0);
  const Tensor weight = b.saved(1);
  // What is recorded itself, to be differentiated again, is made of operators.
  if (grad_enabled() || !b.needs(1) || !detail::is_small_linear(x, weight)) return false;
  gradients[1] = Tensor::empty(weight.shape(), weight.options());
  if (b.needs(0)) gradients[0] = Tensor::empty(x.shape(), x.options());
  if (b.needs(2)) gradients[2] = Tensor::empty({weight.size(0)}, weight.options());
  if constexpr (has_cuda)
    detail::small_linear_backward(Cuda{x.device()}, b.grad(), use_relu ? b.saved(2) : Tensor(), x, weight, gradients[0],
                                  gradients[1], gradients[2]);
  return has_cuda;
}

// What the node of a linear layer needs to know of its tensors.
struct Layer {
  bool use_relu;
  Dtype parameter_dtype;  // of the gradients of weight and bias
};

// input [rows, in]. One node, so that bias and activation cost no tensors of their own. `weight` and `bias` are of the
// input's dtype; gradients go to the parameters from which they may have been rounded.
Tensor linear_rows(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& weight_parameter,
                   const Tensor& bias_parameter, bool use_relu) {
  const std::int64_t rows = input.size(0);
  const std::int64_t in = weight.size(1);
  const std::int64_t out = weight.size(0);
  Tensor result = Tensor::empty({rows, out}, input.options());
  if (result.numel() > 0 && !run_small(input, weight, bias, use_relu, result))
    on(input.device(), [&](auto backend) {
      multiply(backend,
               Gemm{.dtype = input.dtype(),
                    .result_dtype = input.dtype(),
                    .m = rows,
                    .n = out,
                    .k = in,
                    .a = {.data = input.raw(), .row_stride = in},
                    .b = {.data = weight.raw(), .row_stride = in, .transposed = true},
                    .c = {.data = result.raw(), .row_stride = out}},
               result, bias, use_relu);
    });
  const Layer layer{use_relu, weight_parameter.dtype()};
  record("linear", result, {input, weight_parameter, bias_parameter}, {input, weight, use_relu ? result : Tensor()},
         [layer](const Backward& b) {
           Gradients gradients(3);
           if (layer.parameter_dtype == f32 && run_small_backward(b, layer.use_relu, gradients)) return gradients;
           const Tensor dy = layer.use_relu ? detail::relu_gradient(b.grad(), b.saved(2)) : b.grad();
           if (b.needs(0)) gradients[0] = detail::product(dy, b.saved(1), {});
           if (b.needs(1)) {
             auto [weight_gradient, bias_gradient] =
                 parameter_gradients(dy, b.saved(0), layer.parameter_dtype, b.needs(2));
             gradients[1] = weight_gradient;
             gradients[2] = bias_gradient;
           } else if (b.needs(2)) {
             gradients[2] = cast(sum_to(dy, {dy.size(1)}), layer.parameter_dtype);
           }
           return gradients;
         });
  return result;
}

Tensor activated(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::silu:
      return silu(x);
    case Activation::gelu:
      return gelu(x);
    default:
      return x;
  }
}

}  // namespace

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias, Activation activation) {
  require_floating(input, "linear", "input");
  require_rank(weight, 2, "linear", "weight");
  const Tensor x = detail::autocast_operand(input);
  const Tensor w = detail::autocast_operand(weight);
  const Tensor b = detail::autocast_operand(bias);
  require_same_dtype(x, w, "linear", "input", "weight");
  require_same_device(x, w, "linear", "input", "weight");
  const Shape& shape = x.shape();
  require(shape.rank() > 0 && shape[-1] == w.size(1),
          "linear: the last axis of input must be the last of weight [out, in]; input is ", shape, ", weight is ",
          w.shape());
  if (b.defined()) {
    require(b.shape() == Shape{w.size(0)}, "linear: bias must be [", w.size(0), "] for weight ", w.shape(), "; it is ",
            b.shape());
    require_same_dtype(x, b, "linear", "input", "bias");
    require_same_device(x, b, "linear", "input", "bias");
    require_same_dtype(weight, bias, "linear", "weight", "bias");
  }
  const int last = shape.rank() - 1;
  const Tensor rows = reshape(x, {shape.product(0, last), shape[-1]});
  const Tensor y = linear_rows(rows, w, b, weight, bias, activation == Activation::relu);
  return activated(reshape(y, shape.replaced(last, w.size(0))), activation);
}

}  // namespace bevel
