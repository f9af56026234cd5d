#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/conv2d/detail/unfold.h>
#include <bevel/ops/kernel/width.h>

#include <algorithm>

namespace bevel::detail {

namespace {

using Index = std::uint32_t;  // within a chunk; 64-bit division would cost more than the copy

constexpr int threads = 256;

unsigned blocks_for(Cuda backend, std::int64_t count) {
  const std::int64_t most = 16 * static_cast<std::int64_t>(gpu::multiprocessors(backend.device));
  return static_cast<unsigned>(std::clamp<std::int64_t>((count + threads - 1) / threads, 1, most));
}

// The shape in the units that are moved: elements, or packs of several channels.
struct Geometry {
  Index height, width, channels, group_channels;
  Index out_height, out_width, taps, kernel_w;
  int stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
  Index groups;
};

Geometry geometry(const ConvShape& s, std::int64_t pack) {
  require(s.height * s.width < (std::int64_t{1} << 30) && s.out_height * s.out_width < (std::int64_t{1} << 30),
          "conv2d: on CUDA pictures must have fewer than 2^30 pixels; input is ", s.input(), ", output is ",
          s.output());
  const auto index = [](std::int64_t value) { return static_cast<Index>(value); };
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  return {index(s.height),      index(s.width),       index(s.channels / pack), index(s.group_channels() / pack),
          index(s.out_height),  index(s.out_width),   index(s.taps()),          index(s.kernel_w),
          number(s.stride.h),   number(s.stride.w),   number(s.padding.h),      number(s.padding.w),
          number(s.dilation.h), number(s.dilation.w), index(s.groups)};
}

// `input` starts at the picture of the first pixel, which has number `first` in it.
template <class Unit>
__global__ void unfold_kernel(Geometry s, const Unit* input, Index first, Index rows, Unit* columns) {
  const Index count = rows * s.taps * s.channels;
  const Index step = gridDim.x * blockDim.x;
  for (Index i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index l = i % s.group_channels;
    Index rest = i / s.group_channels;
    const Index tap = rest % s.taps;
    rest /= s.taps;
    const Index row = rest % rows;
    const Index group = rest / rows;
    const Index pixel = first + row;
    const Index x = pixel % s.out_width;
    const Index y = pixel / s.out_width % s.out_height;
    const std::int64_t picture = pixel / (s.out_width * s.out_height);
    const int h = static_cast<int>(y) * s.stride_h + static_cast<int>(tap / s.kernel_w) * s.dilation_h - s.padding_h;
    const int w = static_cast<int>(x) * s.stride_w + static_cast<int>(tap % s.kernel_w) * s.dilation_w - s.padding_w;
    Unit value{};
    if (h >= 0 && h < static_cast<int>(s.height) && w >= 0 && w < static_cast<int>(s.width))
      value = input[((picture * s.height + h) * s.width + w) * s.channels + group * s.group_channels + l];
    columns[i] = value;
  }
}

// The place of the output pixel that sees input coordinate `at` under tap `k`, or -1.
__device__ int seen_from(int at, int k, int stride, int padding, int dilation, int size) {
  const int distance = at + padding - k * dilation;
  if (distance < 0 || distance % stride != 0) return -1;
  const int place = distance / stride;
  return place < size ? place : -1;
}

template <class T>
__global__ void fold_kernel(Geometry s, const compute_t<T>* columns, Index pictures, T* result) {
  const Index count = pictures * s.height * s.width * s.channels;
  const Index step = gridDim.x * blockDim.x;
  const std::int64_t group_rows = static_cast<std::int64_t>(pictures) * s.out_height * s.out_width;
  const int kernel_h = static_cast<int>(s.taps / s.kernel_w);
  const int kernel_w = static_cast<int>(s.kernel_w);
  for (Index i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index c = i % s.channels;
    const Index pixel = i / s.channels;
    const int w = static_cast<int>(pixel % s.width);
    const int h = static_cast<int>(pixel / s.width % s.height);
    const Index picture = pixel / (s.width * s.height);
    const Index group = c / s.group_channels;
    const Index l = c % s.group_channels;
    compute_t<T> sum = 0;
    for (int kh = 0; kh < kernel_h; ++kh) {
      const int y = seen_from(h, kh, s.stride_h, s.padding_h, s.dilation_h, static_cast<int>(s.out_height));
      if (y < 0) continue;
      for (int kw = 0; kw < kernel_w; ++kw) {
        const int x = seen_from(w, kw, s.stride_w, s.padding_w, s.dilation_w, static_cast<int>(s.out_width));
        if (x < 0) continue;
        const std::int64_t row =
            group * group_rows + (static_cast<std::int64_t>(picture) * s.out_height + y) * s.out_width + x;
        sum += columns[(row * s.taps + kh * kernel_w + kw) * s.group_channels + l];
      }
    }
    result[i] = static_cast<T>(sum);
  }
}

template <class T>
__global__ void narrow_kernel(const float* from, T* to, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    to[i] = static_cast<T>(from[i]);
}

template <class Unit>
__global__ void transpose_kernel(const Unit* from, Unit* to, std::int64_t rows, std::int64_t columns,
                                 std::int64_t row_tiles, std::int64_t tiles) {
  constexpr int tile = 32;
  __shared__ Unit buffer[tile][tile + 1];
  const std::int64_t column_tiles = (columns + tile - 1) / tile;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t column = t % column_tiles * tile;
    const std::int64_t row = t / column_tiles % row_tiles * tile;
    const std::int64_t offset = t / column_tiles / row_tiles * rows * columns;
    for (int i = threadIdx.y; i < tile; i += blockDim.y)
      if (row + i < rows && column + threadIdx.x < columns)
        buffer[i][threadIdx.x] = from[offset + (row + i) * columns + column + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < tile; i += blockDim.y)
      if (column + i < columns && row + threadIdx.x < rows)
        to[offset + (column + i) * rows + row + threadIdx.x] = buffer[threadIdx.x][i];
    __syncthreads();
  }
}

}  // namespace

void unfold(Cuda backend, const ConvShape& s, const Tensor& input, std::int64_t first, std::int64_t rows,
            const Tensor& columns) {
  const std::int64_t pixels = s.out_height * s.out_width;
  const std::int64_t element = size_of(input.dtype());
  const std::int64_t skipped = first / pixels * s.height * s.width * s.channels * element;
  const char* const from = static_cast<const char*>(input.raw()) + skipped;
  const auto run = [&]<class Unit>(Unit) {
    const Geometry g = geometry(s, static_cast<std::int64_t>(sizeof(Unit)) / element);
    const std::int64_t count = rows * g.taps * g.channels;
    unfold_kernel<<<blocks_for(backend, count), threads, 0, gpu::stream(backend)>>>(
        g, reinterpret_cast<const Unit*>(from), static_cast<Index>(first % pixels), static_cast<Index>(rows),
        static_cast<Unit*>(columns.raw()));
  };
  // The widest unit that divides the channels of a group and fits the alignment.
  const std::int64_t bytes = s.group_channels() * element;
  const auto fits = [&](std::int64_t unit) {
    return unit >= element && bytes % unit == 0 &&
           reinterpret_cast<std::uintptr_t>(from) % static_cast<std::uintptr_t>(unit) == 0;
  };
  if (fits(16))
    run(uint4{});
  else if (fits(8))
    run(uint2{});
  else if (fits(4))
    run(std::uint32_t{});
  else
    run(std::uint16_t{});
  gpu::check(cudaGetLastError(), "unfold_kernel");
}

void fold(Cuda backend, const ConvShape& s, const Tensor& columns, std::int64_t first, std::int64_t pictures,
          const Tensor& input_gradient) {
  const Geometry g = geometry(s, 1);
  const std::int64_t picture = s.height * s.width * s.channels;
  require(picture < (std::int64_t{1} << 31), "conv2d: on CUDA a picture must have fewer than 2^31 elements; input is ",
          s.input());
  visit_floating(input_gradient.dtype(), "conv2d", [&]<class T>() {
    fold_kernel<<<blocks_for(backend, pictures * picture), threads, 0, gpu::stream(backend)>>>(
        g, columns.data<compute_t<T>>(), static_cast<Index>(pictures), input_gradient.data<T>() + first * picture);
  });
  gpu::check(cudaGetLastError(), "fold_kernel");
}

void narrow(Cuda backend, const Tensor& from, const Tensor& to) {
  const auto run = [&]<class T>(T*) {
    narrow_kernel<<<blocks_for(backend, to.numel()), threads, 0, gpu::stream(backend)>>>(from.data<float>(),
                                                                                         to.data<T>(), to.numel());
  };
  if (to.dtype() == bf16)
    run(static_cast<bfloat16*>(nullptr));
  else
    run(static_cast<float16*>(nullptr));
  gpu::check(cudaGetLastError(), "narrow_kernel");
}

void transpose_copy(Cuda backend, const void* from, void* to, std::int64_t batch, std::int64_t rows,
                    std::int64_t columns, std::int64_t size) {
  const gpu::DeviceGuard guard(backend.device);
  const std::int64_t row_tiles = (rows + 31) / 32;
  const std::int64_t tiles = batch * row_tiles * ((columns + 31) / 32);
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, 1 << 20));
  kernel::visit_width(size, [&]<class Unit>(Unit) {
    transpose_kernel<<<blocks, dim3(32, 8), 0, gpu::stream(backend)>>>(
        static_cast<const Unit*>(from), static_cast<Unit*>(to), rows, columns, row_tiles, tiles);
  });
  gpu::check(cudaGetLastError(), "transpose_kernel");
}

}  // namespace bevel::detail
