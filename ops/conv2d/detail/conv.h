// What a backend of the convolution provides: three functions on NHWC tensors. A further backend is one more file.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/pair.h>

namespace bevel::detail {

struct ConvShape {
  std::int64_t batch, height, width, channels;       // of the input
  std::int64_t out_height, out_width, out_channels;  // of the output
  std::int64_t kernel_h, kernel_w;
  Pair stride, padding, dilation;
  std::int64_t groups;

  std::int64_t group_channels() const { return channels / groups; }
  std::int64_t group_out() const { return out_channels / groups; }
  std::int64_t taps() const { return kernel_h * kernel_w; }
  Shape input() const { return {batch, height, width, channels}; }
  Shape output() const { return {batch, out_height, out_width, out_channels}; }
  Shape weight() const { return {out_channels, kernel_h, kernel_w, group_channels()}; }
};

// All tensors are of the shapes above and of one floating dtype; the last one is written, whatever it held. An
// undefined bias is none. The gradient of the weights may also be f32 where the others are of a
// half type (a backend may round it to that type on the way).
//
// Where reads_f32(), the input of the forward and of the gradient of the weights may be f32 beside operands of the half
// type `dtype`, and is rounded as it is read: that spares the copy.
inline bool reads_f32(Cpu, const ConvShape&, Dtype) {
  return false;
}
bool reads_f32(Cuda backend, const ConvShape& shape, Dtype dtype);

void conv_forward(Cpu, const ConvShape& shape, const Tensor& input, const Tensor& weight, const Tensor& bias,
                  const Tensor& output);
void conv_data_gradient(Cpu, const ConvShape& shape, const Tensor& output_gradient, const Tensor& weight,
                        const Tensor& input_gradient);
void conv_filter_gradient(Cpu, const ConvShape& shape, const Tensor& input, const Tensor& output_gradient,
                          const Tensor& weight_gradient);

void conv_forward(Cuda backend, const ConvShape& shape, const Tensor& input, const Tensor& weight, const Tensor& bias,
                  const Tensor& output);
void conv_data_gradient(Cuda backend, const ConvShape& shape, const Tensor& output_gradient, const Tensor& weight,
                        const Tensor& input_gradient);
void conv_filter_gradient(Cuda backend, const ConvShape& shape, const Tensor& input, const Tensor& output_gradient,
                          const Tensor& weight_gradient);

// What computed this thread's last pass of a convolution on CUDA, such as "columns" or cuDNN's name of an engine.
std::string& last_conv_engine();

// to[b, c, r] = from[b, r, c], for elements of `size` = 2, 4 or 8 bytes.
void transpose_copy(Cpu, const void* from, void* to, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                    std::int64_t size);
void transpose_copy(Cuda backend, const void* from, void* to, std::int64_t batch, std::int64_t rows,
                    std::int64_t columns, std::int64_t size);

}  // namespace bevel::detail
