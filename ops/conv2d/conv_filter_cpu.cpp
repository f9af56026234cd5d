// Convolution on the CPU: the gradient with respect to the weights.
#include <bevel/core/parallel.h>
#include <bevel/ops/conv2d/detail/conv.h>
#include <bevel/ops/conv2d/detail/conv_tile.h>
#include <bevel/ops/conv2d/detail/window.h>
#include <bevel/ops/kernel/isa.h>
#include <bevel/ops/matmul/detail/convert.h>

namespace bevel::detail {

namespace {

template <class T>
void run_outer(const ConvOuter<T>& outer) {
#if defined(BEVEL_HAS_X86_64_V3)
  if (has_x86_64_v3()) return x86_64_v3::conv_outer(outer);
#endif
  baseline::conv_outer(outer);
}

// The sum over pictures and pixels is cut into a fixed number of partial sums, each over a run of units (a few rows of
// one picture), which are added in order. All counts depend on the sizes alone.
template <class T>
struct FilterGradient {
  const ConvShape& s;
  const T* input;
  const T* gradient;
  std::int64_t in = s.group_channels();
  std::int64_t out = s.group_out();
  std::int64_t width = (out + conv_lanes<T> - 1) / conv_lanes<T> * conv_lanes<T>;  // of a row of the sums
  std::int64_t depth = s.taps() * in;                                              // rows of a group's sum
  std::int64_t sum_size = s.groups * depth * width;
  std::int64_t unit_rows = 1;
  std::int64_t units_per_picture = 1;
  std::int64_t chunks = 1;
  std::int64_t parts = 1;  // tasks of a chunk, by rows of the kernel

  FilterGradient(const ConvShape& shape, const T* x, const T* dy) : s(shape), input(x), gradient(dy) {
    // Both windows of a unit should stay in the first-level cache while all tiles of the result pass over them.
    const std::int64_t pixel = s.channels * s.stride.h * s.stride.w + s.out_channels;
    const std::int64_t pixels = std::clamp<std::int64_t>(8192 / pixel, 64, 256);
    unit_rows = std::clamp<std::int64_t>(pixels / s.out_width, 1, s.out_height);
    units_per_picture = (s.out_height + unit_rows - 1) / unit_rows;
    chunks = std::clamp<std::int64_t>((1 << 22) / sum_size, 1, 16);
    chunks = std::min(chunks, s.batch * units_per_picture);
    if (chunks < 8) parts = s.kernel_h;
  }

  // Adds the unit's share of kernel rows first_kh <= kh < end_kh to `sum`.
  void add_unit(std::int64_t unit, std::int64_t first_kh, std::int64_t end_kh, T* sum,
                std::shared_ptr<Buffer>& input_scratch, std::shared_ptr<Buffer>& gradient_scratch) const {
    const std::int64_t picture = unit / units_per_picture;
    const std::int64_t first = unit % units_per_picture * unit_rows;
    const std::int64_t rows = std::min(unit_rows, s.out_height - first);
    const Picture<T> source{input + picture * s.height * s.width * s.channels, s.height, s.width, s.channels};
    const std::int64_t top = first * s.stride.h + first_kh * s.dilation.h - s.padding.h;
    const WindowBounds bounds{top, top + (rows - 1) * s.stride.h + (end_kh - 1 - first_kh) * s.dilation.h + 1,
                              -s.padding.w,
                              (s.out_width - 1) * s.stride.w + (s.kernel_w - 1) * s.dilation.w + 1 - s.padding.w};
    std::int64_t row_stride = 0;
    const T* const corner = window(source, bounds, input_scratch, row_stride);
    std::int64_t gradient_step = s.out_channels;
    const T* const own = gradient + (picture * s.out_height + first) * s.out_width * s.out_channels;
    const T* const dy = out == width ? own : padded(own, rows * s.out_width, gradient_scratch, gradient_step);
    const std::int64_t group_step = out == width ? out : width;
    const bool joined = s.groups == 1 && s.dilation.w == 1;  // a row of the kernel lies in one run
    for (std::int64_t g = 0; g < s.groups; ++g)
      for (std::int64_t kh = first_kh; kh < end_kh; ++kh)
        for (std::int64_t kw = 0; kw < (joined ? 1 : s.kernel_w); ++kw)
          for (std::int64_t o = 0; o < width; o += conv_block<T>)
            run_outer(ConvOuter<T>{
                .source =
                    corner + (kh - first_kh) * s.dilation.h * row_stride + kw * s.dilation.w * s.channels + g * in,
                .source_row = s.stride.h * row_stride,
                .source_step = s.stride.w * s.channels,
                .gradient = dy + g * group_step + o,
                .gradient_row = s.out_width * gradient_step,
                .gradient_step = gradient_step,
                .rows = rows,
                .columns = s.out_width,
                .sum = sum + (g * depth + (kh * s.kernel_w + kw) * in) * width + o,
                .sum_row = width,
                .length = joined ? s.kernel_w * in : in,
                .lanes = std::min(conv_block<T>, width - o),
            });
  }

  // A copy of the gradient in which the channels of every group fill whole vectors.
  const T* padded(const T* from, std::int64_t pixels, std::shared_ptr<Buffer>& scratch, std::int64_t& step) const {
    step = s.groups * width;
    const auto bytes = static_cast<std::size_t>(pixels * step) * sizeof(T);
    if (!scratch || scratch->bytes() < bytes) scratch = Buffer::allocate(bytes, cpu);
    T* const copy = static_cast<T*>(scratch->data());
    for (std::int64_t i = 0; i < pixels * s.groups; ++i) {
      std::copy(from + i * out, from + (i + 1) * out, copy + i * width);
      std::fill(copy + i * width + out, copy + (i + 1) * width, T(0));
    }
    return copy;
  }

  void run(T* result) const {
    const auto buffer = Buffer::allocate(static_cast<std::size_t>(chunks * sum_size) * sizeof(T), cpu);
    T* const sums = static_cast<T*>(buffer->data());
    const std::int64_t units = s.batch * units_per_picture;
    parallel_for(chunks * parts, [&](std::int64_t task) {
      const std::int64_t chunk = task / parts;
      const std::int64_t first_kh = parts == 1 ? 0 : task % parts;
      const std::int64_t end_kh = parts == 1 ? s.kernel_h : first_kh + 1;
      T* const sum = sums + chunk * sum_size;
      const std::int64_t tap_row = s.kernel_w * in * width;
      for (std::int64_t g = 0; g < s.groups; ++g)
        std::fill(sum + g * depth * width + first_kh * tap_row, sum + g * depth * width + end_kh * tap_row, T(0));
      std::shared_ptr<Buffer> input_scratch;
      std::shared_ptr<Buffer> gradient_scratch;
      for (std::int64_t unit = units * chunk / chunks; unit < units * (chunk + 1) / chunks; ++unit)
        add_unit(unit, first_kh, end_kh, sum, input_scratch, gradient_scratch);
    });
    parallel_ranges(s.groups * depth, std::max<std::int64_t>(1, (1 << 14) / (chunks * width)),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t row = begin; row < end; ++row) finish(sums, row, result);
                    });
  }

  // Adds the partial sums of one row, which is one column of the weights.
  void finish(const T* sums, std::int64_t row, T* result) const {
    const std::int64_t group = row / depth;
    for (std::int64_t o = 0; o < out; ++o) {
      T total = 0;
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) total += sums[chunk * sum_size + row * width + o];
      result[(group * out + o) * depth + row % depth] = total;
    }
  }
};

}  // namespace

void conv_filter_gradient(Cpu, const ConvShape& shape, const Tensor& input, const Tensor& output_gradient,
                          const Tensor& weight_gradient) {
  if (is_half(input.dtype())) {
    const bool round = is_half(weight_gradient.dtype());
    const Tensor wide = round ? Tensor::empty(weight_gradient.shape()) : weight_gradient;
    conv_filter_gradient(Cpu{}, shape, widened(input), widened(output_gradient), wide);
    if (round) narrow(wide, weight_gradient);
    return;
  }
  visit_float_double(input.dtype(), "conv2d", [&]<class T>() {
    T* const result = weight_gradient.data<T>();
    if (shape.batch == 0)
      std::fill_n(result, weight_gradient.numel(), T(0));
    else
      FilterGradient<T>(shape, input.data<T>(), output_gradient.data<T>()).run(result);
  });
}

}  // namespace bevel::detail
