// Convolution on CUDA: pictures unfolded into columns, and cuBLAS. Work goes in chunks whose columns fit a bounded
// workspace, small enough that the product finds them in the second-level cache of large GPUs.
#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/conv2d/detail/backends.h>
#include <bevel/ops/conv2d/detail/unfold.h>
#include <bevel/ops/matmul/detail/bias.h>
#include <bevel/ops/matmul/detail/gemm.h>

#include <algorithm>

namespace bevel::detail {

namespace {

constexpr std::int64_t workspace_bytes = std::int64_t{64} << 20;

// Every pixel is its own column: the picture needs no unfolding.
bool is_product(const ConvShape& s) {
  return s.taps() == 1 && s.stride == Pair(1) && s.padding == Pair(0);
}

std::int64_t out_pixels(const ConvShape& s) {
  return s.batch * s.out_height * s.out_width;
}

// How many output pixels are unfolded at a time.
std::int64_t chunk_pixels(const ConvShape& s, Dtype dtype) {
  const std::int64_t column = s.taps() * s.channels * size_of(dtype);
  return std::clamp<std::int64_t>(workspace_bytes / column, 1, std::max<std::int64_t>(1, out_pixels(s)));
}

void* at(const Tensor& x, std::int64_t element) {
  return static_cast<char*>(x.raw()) + element * size_of(x.dtype());
}

// The columns of `rows` output pixels as the operand of a product for each group: [groups, rows, taps * in].
GemmOperand columns_of(const ConvShape& s, const Tensor& columns, std::int64_t rows) {
  const std::int64_t depth = s.taps() * s.group_channels();
  return {.data = columns.raw(), .row_stride = depth, .batch_stride = rows * depth};
}

// Channels of pixels from `first` on, by group.
GemmOperand pixels_of(const Tensor& x, std::int64_t channels, std::int64_t groups, std::int64_t first) {
  return {.data = at(x, first * channels), .row_stride = channels, .batch_stride = channels / groups};
}

GemmOperand weights_of(const ConvShape& s, const Tensor& weight) {
  const std::int64_t depth = s.taps() * s.group_channels();
  return {.data = weight.raw(), .row_stride = depth, .batch_stride = s.group_out() * depth};
}

GemmOperand transposed(GemmOperand x) {
  x.transposed = true;
  return x;
}

// Calls use(operand, first, rows) for chunks of output pixels with their columns.
template <class Use>
void for_columns(Cuda backend, const ConvShape& s, const Tensor& input, const Use& use) {
  const std::int64_t pixels = out_pixels(s);
  if (is_product(s)) return use(pixels_of(input, s.channels, s.groups, 0), std::int64_t{0}, pixels);
  const std::int64_t most = chunk_pixels(s, input.dtype());
  const Tensor columns = Tensor::empty({most * s.taps() * s.channels}, input.options());
  for (std::int64_t first = 0; first < pixels; first += most) {
    const std::int64_t rows = std::min(most, pixels - first);
    unfold(backend, s, input, first, rows, columns);
    use(columns_of(s, columns, rows), first, rows);
  }
}

}  // namespace

void columns_forward(Cuda backend, const ConvShape& s, const Tensor& input, const Tensor& weight, const Tensor& bias,
                     const Tensor& output) {
  if (output.numel() == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  last_conv_engine() = "columns";
  for_columns(backend, s, input, [&](const GemmOperand& columns, std::int64_t first, std::int64_t rows) {
    gemm(backend, Gemm{.dtype = input.dtype(),
                       .result_dtype = input.dtype(),
                       .m = rows,
                       .n = s.group_out(),
                       .k = s.taps() * s.group_channels(),
                       .a = columns,
                       .b = transposed(weights_of(s, weight)),
                       .c = pixels_of(output, s.out_channels, s.groups, first),
                       .batch = s.groups});
  });
  if (bias.defined()) add_bias(backend, output, bias);
}

// The gradient of the columns is a product; each input element then gathers what its windows hold, in a fixed order.
// Chunks are whole pictures, at least one: windows do not reach beyond.
void columns_data_gradient(Cuda backend, const ConvShape& s, const Tensor& output_gradient, const Tensor& weight,
                           const Tensor& input_gradient) {
  if (input_gradient.numel() == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  last_conv_engine() = "columns";
  Gemm product{.dtype = weight.dtype(),
               .result_dtype = weight.dtype(),
               .m = out_pixels(s),
               .n = s.taps() * s.group_channels(),
               .k = s.group_out(),
               .a = pixels_of(output_gradient, s.out_channels, s.groups, 0),
               .b = weights_of(s, weight),
               .batch = s.groups};
  if (is_product(s)) {
    product.c = pixels_of(input_gradient, s.channels, s.groups, 0);
    return gemm(backend, product);
  }
  product.result_dtype = compute_dtype(weight.dtype());
  const std::int64_t picture = s.out_height * s.out_width;
  const std::int64_t column = s.taps() * s.channels;
  const std::int64_t by_bytes = workspace_bytes / (picture * column * size_of(product.result_dtype));
  const std::int64_t by_index = (std::int64_t{1} << 30) / (s.height * s.width * s.channels);
  const std::int64_t most = std::clamp<std::int64_t>(std::min(by_bytes, by_index), 1, s.batch);
  const Tensor columns =
      Tensor::empty({most * picture * column}, {.dtype = product.result_dtype, .device = backend.device});
  for (std::int64_t first = 0; first < s.batch; first += most) {
    const std::int64_t pictures = std::min(most, s.batch - first);
    product.m = pictures * picture;
    product.a = pixels_of(output_gradient, s.out_channels, s.groups, first * picture);
    product.c = columns_of(s, columns, product.m);
    gemm(backend, product);
    fold(backend, s, columns, first, pictures, input_gradient);
  }
}

void columns_filter_gradient(Cuda backend, const ConvShape& s, const Tensor& input, const Tensor& output_gradient,
                             const Tensor& weight_gradient) {
  const gpu::DeviceGuard guard(backend.device);
  last_conv_engine() = "columns";
  const Dtype dtype = input.dtype();
  const bool one_chunk = is_product(s) || chunk_pixels(s, dtype) >= out_pixels(s);
  // Chunks of half types are summed in f32.
  const bool wide = is_half(weight_gradient.dtype()) && !one_chunk;
  const Tensor sum = wide ? Tensor::empty(weight_gradient.shape(), {.device = backend.device}) : weight_gradient;
  if (s.batch == 0)
    gpu::check(cudaMemsetAsync(sum.raw(), 0, static_cast<std::size_t>(sum.bytes()), gpu::stream(backend)),
               "cudaMemsetAsync");
  for_columns(backend, s, input, [&](const GemmOperand& columns, std::int64_t first, std::int64_t rows) {
    gemm(backend, Gemm{.dtype = dtype,
                       .result_dtype = sum.dtype(),
                       .m = s.group_out(),
                       .n = s.taps() * s.group_channels(),
                       .k = rows,
                       .a = transposed(pixels_of(output_gradient, s.out_channels, s.groups, first)),
                       .b = columns,
                       .c = weights_of(s, sum),
                       .batch = s.groups,
                       .accumulate = first > 0});
  });
  if (wide) narrow(backend, sum, weight_gradient);
}

}  // namespace bevel::detail
