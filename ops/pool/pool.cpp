#include <bevel/core/autograd.h>
#include <bevel/ops/pool/detail/kernels.h>
#include <bevel/ops/pool/pool.h>
#include <bevel/ops/reduction/sum.h>

#include <limits>

namespace bevel {

namespace {

using detail::PoolShape;

void check_input(const char* function, const Tensor& input) {
  require_floating(input, function, "input");
  require_rank(input, 4, function, "input");
  require(input.shape().product(1, 4) > 0, function, ": the pictures must not be empty; input is ", input.shape());
}

std::int64_t output_size(const char* function, const char* axis, std::int64_t size, std::int64_t kernel,
                         std::int64_t stride, std::int64_t padding) {
  require(kernel >= 1, function, ": kernel must be at least 1; its ", axis, " is ", kernel);
  require(stride >= 1, function, ": stride must be at least 1; its ", axis, " is ", stride);
  require(padding >= 0 && padding < kernel, function, ": padding must be at least 0 and less than the kernel, ", kernel,
          "; its ", axis, " is ", padding);
  require(kernel <= size + 2 * padding, function, ": the kernel is larger than the picture: its ", axis, " is ", kernel,
          ", that of the picture ", size, " with padding ", padding);
  return (size + 2 * padding - kernel) / stride + 1;
}

PoolShape shape_of(const char* function, const Tensor& input, Pair kernel, Pair stride, Pair padding, Layout layout,
                   bool count_include_pad) {
  check_input(function, input);
  if (stride == Pair(0)) stride = kernel;
  const Shape& s = input.shape();
  const bool nhwc = layout == Layout::nhwc;
  const std::int64_t height = s[nhwc ? 1 : 2];
  const std::int64_t width = s[nhwc ? 2 : 3];
  return {.batch = nhwc ? s[0] : s[0] * s[1],
          .height = height,
          .width = width,
          .channels = nhwc ? s[3] : 1,
          .out_height = output_size(function, "height", height, kernel.h, stride.h, padding.h),
          .out_width = output_size(function, "width", width, kernel.w, stride.w, padding.w),
          .kernel_h = kernel.h,
          .kernel_w = kernel.w,
          .stride_h = stride.h,
          .stride_w = stride.w,
          .padding_h = padding.h,
          .padding_w = padding.w,
          .count_include_pad = count_include_pad};
}

Shape output_shape(const PoolShape& s, const Tensor& input, Layout layout) {
  const Shape& in = input.shape();
  return layout == Layout::nhwc ? Shape{in[0], s.out_height, s.out_width, in[3]}
                                : Shape{in[0], in[1], s.out_height, s.out_width};
}

// Taking the elements at given places and spreading a gradient to them are linear, and each other's derivative.
Tensor spread_to_places(const PoolShape& shape, const Tensor& gradient, const Tensor& places, const Shape& to);

Tensor take_places(const PoolShape& shape, const Tensor& input, const Tensor& places) {
  Tensor result = Tensor::empty(places.shape(), input.options());
  on(input.device(), [&](auto backend) { take_places(backend, shape, input, places, result); });
  record("max_pool2d_take", result, {input}, {places}, [shape, from = input.shape()](const Backward& b) {
    return Gradients{spread_to_places(shape, b.grad(), b.saved(0), from)};
  });
  return result;
}

Tensor spread_to_places(const PoolShape& shape, const Tensor& gradient, const Tensor& places, const Shape& to) {
  Tensor result = Tensor::empty(to, gradient.options());
  on(gradient.device(), [&](auto backend) { spread_to_places(backend, shape, gradient, places, result); });
  record("max_pool2d_spread", result, {gradient}, {places},
         [shape](const Backward& b) { return Gradients{take_places(shape, b.grad(), b.saved(0))}; });
  return result;
}

// So are means of windows and spreading them.
Tensor spread_means(const PoolShape& shape, const Tensor& gradient, const Shape& to);

Tensor means(const PoolShape& shape, const Tensor& input, const Shape& to) {
  Tensor result = Tensor::empty(to, input.options());
  on(input.device(), [&](auto backend) { avg_pool(backend, shape, input, result); });
  record("avg_pool2d", result, {input}, {},
         [shape, from = input.shape()](const Backward& b) { return Gradients{spread_means(shape, b.grad(), from)}; });
  return result;
}

Tensor spread_means(const PoolShape& shape, const Tensor& gradient, const Shape& to) {
  Tensor result = Tensor::empty(to, gradient.options());
  on(gradient.device(), [&](auto backend) { spread_means(backend, shape, gradient, result); });
  record("avg_pool2d_spread", result, {gradient}, {},
         [shape, from = gradient.shape()](const Backward& b) { return Gradients{means(shape, b.grad(), from)}; });
  return result;
}

}  // namespace

Tensor max_pool2d(const Tensor& input, Pair kernel, const MaxPool2dOptions& o) {
  const PoolShape shape = shape_of("max_pool2d", input, kernel, o.stride, o.padding, o.layout, true);
  require(shape.height * shape.width <= std::numeric_limits<std::int32_t>::max(),
          "max_pool2d: a picture must have fewer than 2^31 pixels; input is ", input.shape());
  Tensor result = Tensor::empty(output_shape(shape, input, o.layout), input.options());
  const Tensor places = Tensor::empty(result.shape(), {.dtype = i32, .device = input.device()});
  on(input.device(), [&](auto backend) { max_pool(backend, shape, input, result, places); });
  record("max_pool2d", result, {input}, {places}, [shape, from = input.shape()](const Backward& b) {
    return Gradients{spread_to_places(shape, b.grad(), b.saved(0), from)};
  });
  return result;
}

Tensor avg_pool2d(const Tensor& input, Pair kernel, const AvgPool2dOptions& o) {
  const PoolShape shape = shape_of("avg_pool2d", input, kernel, o.stride, o.padding, o.layout, o.count_include_pad);
  return means(shape, input, output_shape(shape, input, o.layout));
}

Tensor global_avg_pool(const Tensor& input, Layout layout) {
  check_input("global_avg_pool", input);
  return layout == Layout::nhwc ? mean(input, {1, 2}) : mean(input, {2, 3});
}

}  // namespace bevel
