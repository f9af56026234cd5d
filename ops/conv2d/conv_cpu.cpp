// Convolution on the CPU: forward and the gradient with respect to the input, both as correlations.
#include <bevel/core/parallel.h>
#include <bevel/ops/conv2d/detail/conv.h>
#include <bevel/ops/conv2d/detail/correlate.h>
#include <bevel/ops/kernel/width.h>
#include <bevel/ops/matmul/detail/convert.h>

namespace bevel::detail {

namespace {

template <class T>
void forward(const ConvShape& s, const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& output) {
  const std::int64_t in = s.group_channels();
  const std::int64_t out = s.group_out();
  std::vector<Tap> taps;
  for (std::int64_t kh = 0; kh < s.kernel_h; ++kh)
    for (std::int64_t kw = 0; kw < s.kernel_w; ++kw)
      taps.push_back({kh * s.dilation.h - s.padding.h, kw * s.dilation.w - s.padding.w, kh * s.kernel_w + kw});
  correlate(Correlation<T>{
      .source = input.data<T>(),
      .batch = s.batch,
      .height = s.height,
      .width = s.width,
      .groups = s.groups,
      .in = in,
      .out = out,
      .step_h = s.stride.h,
      .step_w = s.stride.w,
      .taps = std::move(taps),
      .weight = weight.data<T>(),
      .weight_group = out * s.taps() * in,
      .weight_tap = in,
      .weight_in = 1,
      .weight_out = s.taps() * in,
      .bias = bias.defined() ? bias.data<T>() : nullptr,
      .result = output.data<T>(),
      .rows = s.out_height,
      .columns = s.out_width,
      .result_picture = s.out_height * s.out_width * s.out_channels,
      .result_row = s.out_width * s.out_channels,
      .result_pixel = s.out_channels,
  });
}

// The taps that reach input pixels at `phase` of the stride: i * stride + phase = o * stride + k * dilation - padding,
// so o = i + (phase + padding - k * dilation) / stride where that is whole. In falling order of k, rising in o.
struct AxisTap {
  std::int64_t shift, k;
};
std::vector<AxisTap> axis_taps(std::int64_t phase, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                               std::int64_t dilation) {
  std::vector<AxisTap> taps;
  for (std::int64_t k = kernel - 1; k >= 0; --k) {
    const std::int64_t distance = phase + padding - k * dilation;
    if (distance % stride == 0) taps.push_back({distance / stride, k});
  }
  return taps;
}

// Input pixels of one phase of the stride read the output gradient at unit steps, so each phase is a correlation with
// its own share of the taps: no multiplication by inserted zeros.
template <class T>
void data_gradient(const ConvShape& s, const Tensor& output_gradient, const Tensor& weight,
                   const Tensor& input_gradient) {
  const std::int64_t in = s.group_channels();
  const std::int64_t out = s.group_out();
  for (std::int64_t y = 0; y < std::min(s.stride.h, s.height); ++y)
    for (std::int64_t x = 0; x < std::min(s.stride.w, s.width); ++x) {
      std::vector<Tap> taps;
      for (const AxisTap& h : axis_taps(y, s.kernel_h, s.stride.h, s.padding.h, s.dilation.h))
        for (const AxisTap& w : axis_taps(x, s.kernel_w, s.stride.w, s.padding.w, s.dilation.w))
          taps.push_back({h.shift, w.shift, h.k * s.kernel_w + w.k});
      correlate(Correlation<T>{
          .source = output_gradient.data<T>(),
          .batch = s.batch,
          .height = s.out_height,
          .width = s.out_width,
          .groups = s.groups,
          .in = out,
          .out = in,
          .step_h = 1,
          .step_w = 1,
          .taps = std::move(taps),
          .weight = weight.data<T>(),
          .weight_group = out * s.taps() * in,
          .weight_tap = in,
          .weight_in = s.taps() * in,
          .weight_out = 1,
          .bias = nullptr,
          .result = input_gradient.data<T>() + (y * s.width + x) * s.channels,
          .rows = (s.height - y + s.stride.h - 1) / s.stride.h,
          .columns = (s.width - x + s.stride.w - 1) / s.stride.w,
          .result_picture = s.height * s.width * s.channels,
          .result_row = s.stride.h * s.width * s.channels,
          .result_pixel = s.stride.w * s.channels,
      });
    }
}

}  // namespace

void conv_forward(Cpu, const ConvShape& shape, const Tensor& input, const Tensor& weight, const Tensor& bias,
                  const Tensor& output) {
  if (is_half(input.dtype())) {
    const Tensor wide = Tensor::empty(output.shape());
    conv_forward(Cpu{}, shape, widened(input), widened(weight), bias.defined() ? widened(bias) : bias, wide);
    return narrow(wide, output);
  }
  visit_float_double(input.dtype(), "conv2d", [&]<class T>() { forward<T>(shape, input, weight, bias, output); });
}

void conv_data_gradient(Cpu, const ConvShape& shape, const Tensor& output_gradient, const Tensor& weight,
                        const Tensor& input_gradient) {
  if (is_half(weight.dtype())) {
    const Tensor wide = Tensor::empty(input_gradient.shape());
    conv_data_gradient(Cpu{}, shape, widened(output_gradient), widened(weight), wide);
    return narrow(wide, input_gradient);
  }
  visit_float_double(weight.dtype(), "conv2d",
                     [&]<class T>() { data_gradient<T>(shape, output_gradient, weight, input_gradient); });
}

namespace {
template <class T>
void transpose(const T* from, T* to, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t tile = 32;
  const std::int64_t row_tiles = (rows + tile - 1) / tile;
  parallel_for(batch * row_tiles, [=](std::int64_t i) {
    const std::int64_t offset = i / row_tiles * rows * columns;
    const std::int64_t first = i % row_tiles * tile;
    const std::int64_t end = std::min(rows, first + tile);
    for (std::int64_t c0 = 0; c0 < columns; c0 += tile)
      for (std::int64_t c = c0; c < std::min(columns, c0 + tile); ++c)
        for (std::int64_t r = first; r < end; ++r) to[offset + c * rows + r] = from[offset + r * columns + c];
  });
}
}  // namespace

void transpose_copy(Cpu, const void* from, void* to, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                    std::int64_t size) {
  kernel::visit_width(
      size, [&]<class T>(T) { transpose(static_cast<const T*>(from), static_cast<T*>(to), batch, rows, columns); });
}

}  // namespace bevel::detail
