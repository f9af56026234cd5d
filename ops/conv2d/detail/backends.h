// The backends on CUDA, between which conv_forward(Cuda, ...) and its kin choose. Arguments as in detail/conv.h.
#pragma once

#include <bevel/ops/conv2d/detail/conv.h>

namespace bevel::detail {

// Through columns and matrix products: every shape and dtype.
void columns_forward(Cuda backend, const ConvShape& shape, const Tensor& input, const Tensor& weight,
                     const Tensor& bias, const Tensor& output);
void columns_data_gradient(Cuda backend, const ConvShape& shape, const Tensor& output_gradient, const Tensor& weight,
                           const Tensor& input_gradient);
void columns_filter_gradient(Cuda backend, const ConvShape& shape, const Tensor& input, const Tensor& output_gradient,
                             const Tensor& weight_gradient);

// Through cuDNN. False, with nothing done, where it has no engine. Defined where has_cudnn.
bool cudnn_forward(Cuda backend, const ConvShape& shape, const Tensor& input, const Tensor& weight, const Tensor& bias,
                   const Tensor& output);
bool cudnn_data_gradient(Cuda backend, const ConvShape& shape, const Tensor& output_gradient, const Tensor& weight,
                         const Tensor& input_gradient);
bool cudnn_filter_gradient(Cuda backend, const ConvShape& shape, const Tensor& input, const Tensor& output_gradient,
                           const Tensor& weight_gradient);

// The library's own kernels for few channels. False, with nothing done, where they do not fit.
bool direct_forward(Cuda backend, const ConvShape& shape, const Tensor& input, const Tensor& weight, const Tensor& bias,
                    const Tensor& output);
// Whether forward and gradient of the weights read pictures of f32 beside operands of this half type.
bool direct_reads_f32(Cuda backend, const ConvShape& shape, Dtype dtype);
bool direct_data_gradient(Cuda backend, const ConvShape& shape, const Tensor& output_gradient, const Tensor& weight,
                          const Tensor& input_gradient);
bool direct_filter_gradient(Cuda backend, const ConvShape& shape, const Tensor& input, const Tensor& output_gradient,
                            const Tensor& weight_gradient);

}  // namespace bevel::detail
