#include <bevel/core/autograd.h>
#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/conv2d/detail/backends.h>
#include <bevel/ops/conv2d/settings.h>
#include <bevel/ops/pointwise/cast.h>

namespace bevel::detail {

namespace {

// Every pixel is its own column, so that a convolution is a plain product of matrices.
bool is_product(const ConvShape& s) {
  return s.taps() == 1 && s.stride == Pair(1) && s.padding == Pair(0);
}

bool wants_cudnn(ConvBackend backend, const ConvShape& shape) {
  return backend == ConvBackend::cudnn || (backend == ConvBackend::automatic && !is_product(shape));
}
bool wants_direct(ConvBackend backend) {
  return backend == ConvBackend::automatic || backend == ConvBackend::direct;
}

// A pass that should have read f32 and could not, its memory not being aligned, gets the copy after all.
Tensor rounded(const Tensor& input, Dtype dtype) {
  return no_grad([&] { return cast(input, dtype); });
}

}  // namespace

bool reads_f32(Cuda backend, const ConvShape& shape, Dtype dtype) {
  return wants_direct(conv_settings().backend) && direct_reads_f32(backend, shape, dtype);
}

void conv_forward(Cuda backend, const ConvShape& shape, const Tensor& input, const Tensor& weight, const Tensor& bias,
                  const Tensor& output) {
  const ConvBackend wanted = conv_settings().backend;
  if (wants_direct(wanted) && direct_forward(backend, shape, input, weight, bias, output)) return;
  if (input.dtype() != weight.dtype())
    return conv_forward(backend, shape, rounded(input, weight.dtype()), weight, bias, output);
  if constexpr (has_cudnn)
    if (wants_cudnn(wanted, shape) && cudnn_forward(backend, shape, input, weight, bias, output)) return;
  columns_forward(backend, shape, input, weight, bias, output);
}

void conv_data_gradient(Cuda backend, const ConvShape& shape, const Tensor& output_gradient, const Tensor& weight,
                        const Tensor& input_gradient) {
  const ConvBackend wanted = conv_settings().backend;
  if (wants_direct(wanted) && direct_data_gradient(backend, shape, output_gradient, weight, input_gradient)) return;
  if constexpr (has_cudnn)
    if (wants_cudnn(wanted, shape) && cudnn_data_gradient(backend, shape, output_gradient, weight, input_gradient))
      return;
  columns_data_gradient(backend, shape, output_gradient, weight, input_gradient);
}

void conv_filter_gradient(Cuda backend, const ConvShape& shape, const Tensor& input, const Tensor& output_gradient,
                          const Tensor& weight_gradient) {
  const ConvBackend wanted = conv_settings().backend;
  if (wants_direct(wanted) && direct_filter_gradient(backend, shape, input, output_gradient, weight_gradient)) return;
  if (input.dtype() != output_gradient.dtype())
    return conv_filter_gradient(backend, shape, rounded(input, output_gradient.dtype()), output_gradient,
                                weight_gradient);
  if constexpr (has_cudnn)
    if (wants_cudnn(wanted, shape) && cudnn_filter_gradient(backend, shape, input, output_gradient, weight_gradient))
      return;
  columns_filter_gradient(backend, shape, input, output_gradient, weight_gradient);
}

}  // namespace bevel::detail
