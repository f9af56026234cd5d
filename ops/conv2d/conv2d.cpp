#include <bevel/core/autograd.h>
#include <bevel/ops/autocast.h>
#include <bevel/ops/conv2d/conv2d.h>
#include <bevel/ops/conv2d/detail/conv.h>
#include <bevel/ops/pointwise/cast.h>
#include <bevel/ops/reduction/sum.h>

#include <cstring>

namespace bevel {

namespace {

using detail::ConvShape;

// The convolution and its two gradients are linear in each of their operands, and the derivatives of each are the
// other two; so a convolution is differentiable any number of times.
Tensor forward(const ConvShape& shape, const Tensor& input, const Tensor& weight);
Tensor data_gradient(const ConvShape& shape, const Tensor& output_gradient, const Tensor& weight);
Tensor filter_gradient(const ConvShape& shape, const Tensor& input, const Tensor& output_gradient, Dtype dtype);

// Weight and bias as the kernels take them, of the input's dtype, and the parameters that they are or were rounded
// from, to which gradients go.
struct Parameters {
  Tensor weight, bias;
  Tensor weight_parameter, bias_parameter;
};

Tensor forward(const ConvShape& shape, const Tensor& input, const Parameters& p) {
  Tensor output = Tensor::empty(shape.output(), p.weight.options());
  on(input.device(), [&](auto backend) { conv_forward(backend, shape, input, p.weight, p.bias, output); });
  const Dtype dtype = p.weight_parameter.dtype();
  record("conv2d", output, {input, p.weight_parameter, p.bias_parameter}, {input, p.weight},
         [shape, dtype](const Backward& b) {
           const Tensor gradient = b.grad();
           Gradients gradients(3);
           // First what needs the input: one that was computed again (recompute.h) is gone before the next allocation.
           if (b.needs(1)) gradients[1] = filter_gradient(shape, b.saved(0), gradient, dtype);
           if (b.needs(0)) gradients[0] = data_gradient(shape, gradient, b.saved(1));
           if (b.needs(2)) gradients[2] = cast(sum_to(gradient, {shape.out_channels}), dtype);
           return gradients;
         });
  return output;
}

Tensor forward(const ConvShape& shape, const Tensor& input, const Tensor& weight) {
  return forward(shape, input, {weight, {}, weight, {}});
}

Tensor data_gradient(const ConvShape& shape, const Tensor& output_gradient, const Tensor& weight) {
  Tensor result = Tensor::empty(shape.input(), weight.options());
  on(weight.device(), [&](auto backend) { conv_data_gradient(backend, shape, output_gradient, weight, result); });
  record("conv2d_data_gradient", result, {output_gradient, weight}, {output_gradient, weight},
         [shape](const Backward& b) {
           const Tensor gradient = b.grad();
           Gradients gradients(2);
           if (b.needs(0)) gradients[0] = forward(shape, gradient, b.saved(1));
           if (b.needs(1)) gradients[1] = filter_gradient(shape, gradient, b.saved(0), gradient.dtype());
           return gradients;
         });
  return result;
}

// `dtype` is that of the operands, or f32 for operands of a half type.
Tensor filter_gradient(const ConvShape& shape, const Tensor& input, const Tensor& output_gradient, Dtype dtype) {
  Tensor result = Tensor::empty(shape.weight(), {.dtype = dtype, .device = input.device()});
  on(input.device(), [&](auto backend) { conv_filter_gradient(backend, shape, input, output_gradient, result); });
  record("conv2d_filter_gradient", result, {input, output_gradient}, {input, output_gradient},
         [shape](const Backward& b) {
           const Tensor gradient = cast(b.grad(), b.saved(1).dtype());  // the input may be f32 beside a half type
           Gradients gradients(2);
           if (b.needs(0)) gradients[0] = data_gradient(shape, b.saved(1), gradient);
           if (b.needs(1)) gradients[1] = forward(shape, b.saved(0), gradient);
           return gradients;
         });
  return result;
}

// Between [N, H, W, C] and [N, C, H, W].
Tensor relaid(const Tensor& x, Layout to) {
  const Shape& s = x.shape();
  const bool to_nhwc = to == Layout::nhwc;
  const Shape shape = to_nhwc ? Shape{s[0], s[2], s[3], s[1]} : Shape{s[0], s[3], s[1], s[2]};
  const std::int64_t rows = to_nhwc ? s[1] : s[1] * s[2];
  const std::int64_t columns = to_nhwc ? s[2] * s[3] : s[3];
  Tensor result = Tensor::empty(shape, x.options());
  if (x.numel() > 0)
    on(x.device(), [&](auto backend) {
      detail::transpose_copy(backend, x.raw(), result.raw(), s[0], rows, columns, size_of(x.dtype()));
    });
  record(to_nhwc ? "to_nhwc" : "to_nchw", result, {x}, {},
         [to_nhwc](const Backward& b) { return Gradients{relaid(b.grad(), to_nhwc ? Layout::nchw : Layout::nhwc)}; });
  return result;
}

void check_tensors(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  require_floating(input, "conv2d", "input");
  require_rank(input, 4, "conv2d", "input");
  require_rank(weight, 4, "conv2d", "weight");
  const bool stays_f32 = autocast_dtype() != f32 && input.dtype() == f32;  // see input_operand
  if (!stays_f32) require_same_dtype(input, weight, "conv2d", "input", "weight");
  require_same_device(input, weight, "conv2d", "input", "weight");
  if (!bias.defined()) return;
  require(bias.shape() == Shape{weight.size(0)}, "conv2d: bias must be [", weight.size(0), "] for weight ",
          weight.shape(), "; it is ", bias.shape());
  require_same_dtype(weight, bias, "conv2d", "weight", "bias");
  require_same_device(input, bias, "conv2d", "input", "bias");
}

std::int64_t output_size(const char* axis, std::int64_t size, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, std::int64_t dilation) {
  const std::int64_t reach = dilation * (kernel - 1) + 1;
  require(reach <= size + 2 * padding, "conv2d: the kernel reaches over ", reach, " pixels (", kernel,
          " taps, dilation ", dilation, "), more than the ", axis, " ", size, " with padding ", padding);
  return (size + 2 * padding - reach) / stride + 1;
}

ConvShape shape_of(const Tensor& input, const Tensor& weight, const Conv2dOptions& o) {
  const bool nhwc = o.layout == Layout::nhwc;
  const Shape& in = input.shape();
  const Shape& w = weight.shape();
  const std::int64_t channels = in[nhwc ? 3 : 1];
  require(o.stride.h >= 1 && o.stride.w >= 1, "conv2d: stride must be at least 1; it is ", o.stride);
  require(o.dilation.h >= 1 && o.dilation.w >= 1, "conv2d: dilation must be at least 1; it is ", o.dilation);
  require(o.padding.h >= 0 && o.padding.w >= 0, "conv2d: padding must not be negative; it is ", o.padding);
  require(o.groups >= 1, "conv2d: groups must be at least 1; it is ", o.groups);
  require(w.numel() > 0 && channels > 0, "conv2d: channels and kernel must not be empty; input is ", in, ", weight is ",
          w);
  require(channels % o.groups == 0 && w[0] % o.groups == 0, "conv2d: groups = ", o.groups, " must divide the ",
          channels, " input channels and the ", w[0], " output channels");
  require(w[3] == channels / o.groups, "conv2d: weight [out, kernel_h, kernel_w, channels / groups] must end in ",
          channels / o.groups, " for input ", in, " in ", o.layout, " with ", o.groups, " groups; it is ", w);
  const std::int64_t height = in[nhwc ? 1 : 2];
  const std::int64_t width = in[nhwc ? 2 : 3];
  return {.batch = in[0],
          .height = height,
          .width = width,
          .channels = channels,
          .out_height = output_size("height", height, w[1], o.stride.h, o.padding.h, o.dilation.h),
          .out_width = output_size("width", width, w[2], o.stride.w, o.padding.w, o.dilation.w),
          .out_channels = w[0],
          .kernel_h = w[1],
          .kernel_w = w[2],
          .stride = o.stride,
          .padding = o.padding,
          .dilation = o.dilation,
          .groups = o.groups};
}

// The input as the kernels take it. One that the kernel rounds itself, and that needs no gradient, stays f32.
Tensor input_operand(const Tensor& input, const Tensor& weight, const Conv2dOptions& options) {
  const bool is_rounded = autocast_dtype() != f32 && input.dtype() == f32 && !input.requires_grad() &&
                          options.layout == Layout::nhwc && input.device() == weight.device() &&
                          (weight.dtype() == f32 || weight.dtype() == autocast_dtype());
  if (is_rounded && input.rank() == 4 && weight.rank() == 4) {
    const ConvShape shape = shape_of(input, weight, options);
    if (on(input.device(), [&](auto backend) { return reads_f32(backend, shape, autocast_dtype()); })) return input;
  }
  return detail::autocast_operand(input);
}

}  // namespace

Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  const Tensor x = input_operand(input, weight, options);
  const Parameters parameters{detail::autocast_operand(weight), detail::autocast_operand(bias), weight, bias};
  check_tensors(x, parameters.weight, parameters.bias);
  if (bias.defined()) require_same_dtype(weight, bias, "conv2d", "weight", "bias");
  const ConvShape shape = shape_of(x, weight, options);
  if (options.layout == Layout::nhwc) return forward(shape, x, parameters);
  return relaid(forward(shape, relaid(x, Layout::nhwc), parameters), Layout::nchw);
}

}  // namespace bevel
