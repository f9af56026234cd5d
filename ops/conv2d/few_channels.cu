// Convolutions with few channels, where cuDNN's engines take three to thirty times as long as their bytes: 3x3 kernels
// with padding 1 from pictures (3 to 32 channels, stride 2) and from 32 to 32 channels; in TF32 also the gradient of
// the weights from 32 to 64 channels with stride 2.
#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/conv2d/detail/backends.h>
#include <bevel/ops/matmul/matmul.h>
#include <bevel/ops/conv2d/few/filter.cuh>
#include <bevel/ops/conv2d/few/forward.cuh>
#include <bevel/ops/conv2d/few/pictures.cuh>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>

namespace bevel::detail {

namespace {

using few::Rows;
using few::slice;

int attribute(Cuda backend, cudaDeviceAttr name) {
  int value = 0;
  gpu::check(cudaDeviceGetAttribute(&value, name, backend.device.index), "cudaDeviceGetAttribute");
  return value;
}

// Asked once for each device: whether it has the instructions, and the shared memory of a block.
struct Limits {
  bool has_instructions = false;
  std::size_t shared_bytes = 0;
};
const Limits& limits_of(Cuda backend) {
  static std::mutex mutex;
  static auto& known = *new std::map<int, Limits>;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = known.try_emplace(backend.device.index);
  if (is_new)
    entry->second = {attribute(backend, cudaDevAttrComputeCapabilityMajor) >= 8,
                     static_cast<std::size_t>(attribute(backend, cudaDevAttrMaxSharedMemoryPerBlockOptin))};
  return entry->second;
}

bool is_aligned(const Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.raw()) % 16 == 0;
}

// What all kernels here ask for. `stride` is that of the kernel in question.
bool fits(Cuda backend, const ConvShape& s, Dtype dtype, std::int64_t stride) {
  const bool is_tf32 = dtype == f32 && matmul_precision() == Precision::tf32;
  return (is_half(dtype) || is_tf32) && limits_of(backend).has_instructions && s.kernel_h == 3 && s.kernel_w == 3 &&
         s.padding == Pair(1) && s.dilation == Pair(1) && s.groups == 1 && s.stride == Pair(stride) &&
         s.height == stride * s.out_height && s.width == stride * s.out_width && s.out_width % 32 == 0 &&
         s.out_height >= 4 && s.batch * s.out_height * stride < (std::int64_t{1} << 30);
}

bool is_from_pictures(Cuda backend, const ConvShape& s, Dtype dtype) {
  return s.channels == 3 && s.out_channels == slice && fits(backend, s, dtype, 2);
}
bool is_narrow(Cuda backend, const ConvShape& s, Dtype dtype) {
  return s.channels == slice && s.out_channels == slice && fits(backend, s, dtype, 1);
}

// The gradient of the weights alone pays for twice as many output channels, too, in TF32.
bool is_narrow_filter(Cuda backend, const ConvShape& s, Dtype dtype) {
  return s.channels == slice && s.out_channels == 2 * slice && dtype == f32 && fits(backend, s, dtype, 2);
}

// Output rows in equal shares of whole stages to at most `blocks` blocks.
struct Shares {
  Rows rows;
  unsigned blocks;
};
Shares share(const ConvShape& s, int stage_rows, int blocks) {
  const auto count = static_cast<int>(s.batch * s.out_height);
  int each = (count + blocks - 1) / blocks;
  each = (each + stage_rows - 1) / stage_rows * stage_rows;
  return {{count, static_cast<int>(s.out_height), static_cast<int>(s.out_width), each},
          static_cast<unsigned>((count + each - 1) / each)};
}

// Calls f with the hardware's element type: f(few::Bf16()), f(few::F16()) or, for TF32, f(float()).
template <class F>
bool visit_element(Dtype dtype, const F& f) {
  if (dtype == bf16) return f(few::Bf16());
  if (dtype == f16) return f(few::F16());
  return f(float());
}

template <class T>
T* data_of(const Tensor& x) {
  return static_cast<T*>(x.raw());
}

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? data_of<T>(x) : nullptr;
}

// Launches unless the device's blocks have too little shared memory. The limit of a kernel is raised once.
template <class... Parameters, class... Arguments>
bool launch_with_memory(Cuda backend, void (*kernel)(Parameters...), dim3 blocks, std::size_t bytes, const char* name,
                        const Arguments&... arguments) {
  if (bytes > limits_of(backend).shared_bytes) return false;
  static std::mutex mutex;
  static auto& raised = *new std::map<std::pair<int, const void*>, std::size_t>;
  {
    const std::lock_guard lock(mutex);
    std::size_t& limit = raised[{backend.device.index, reinterpret_cast<const void*>(kernel)}];
    if (bytes > limit)
      gpu::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
                 "cudaFuncSetAttribute");
    limit = std::max(limit, bytes);
  }
  gpu::launch(kernel,
              {.blocks = blocks, .threads = few::threads, .shared_bytes = bytes, .stream = gpu::stream(backend)}, name,
              arguments...);
  return true;
}

void sum_partials(Cuda backend, const Tensor& partial, unsigned parts, const Tensor& result) {
  const auto count = static_cast<int>(result.numel());
  const gpu::LaunchShape shape{
      .blocks = static_cast<unsigned>((count + 31) / 32), .threads = few::threads, .stream = gpu::stream(backend)};
  const auto run = [&]<class R>(R*) {
    gpu::launch(few::sum_partials_kernel<R>, shape, "sum_partials_kernel", partial.data<float>(), data_of<R>(result),
                count, static_cast<int>(parts));
  };
  if (result.dtype() == bf16)
    run(static_cast<few::Bf16*>(nullptr));
  else if (result.dtype() == f16)
    run(static_cast<few::F16*>(nullptr));
  else
    run(static_cast<float*>(nullptr));
}

Tensor partials_for(Cuda backend, unsigned parts, const Tensor& result) {
  return Tensor::empty({static_cast<std::int64_t>(parts) * result.numel()}, {.device = backend.device});
}

// How many rows a stage has, and how many stages are on their way, by element type: measured on an H200.
template <class T>
struct PictureForwardStages {
  static constexpr int rows = sizeof(T) == 2 ? 4 : 1;
  static constexpr int ahead = sizeof(T) == 2 ? 1 : 3;
};
template <class T>
struct PictureFilterStages {
  static constexpr int rows = sizeof(T) == 2 ? 4 : 2;
  static constexpr int ahead = 1;
};
template <class T>
struct ForwardStages {
  static constexpr int rows = sizeof(T) == 2 ? 4 : 2;
  static constexpr int ahead = 1;
};
template <class T>
struct FilterStages {
  static constexpr int rows = sizeof(T) == 2 ? 4 : 1;
  static constexpr int ahead = sizeof(T) == 2 ? 1 : 3;
  static constexpr int m_tiles = sizeof(T) == 2 ? 1 : 2;
};

// The convolution itself, or with `is_gradient` that of its input.
template <bool is_gradient>
bool narrow_convolution(Cuda backend, const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Tensor& y) {
  return visit_element(x.dtype(), [&]<class T>(T) {
    constexpr int rows = ForwardStages<T>::rows;
    constexpr int ahead = ForwardStages<T>::ahead;
    const Shares shares = share(s, rows, 2 * gpu::multiprocessors(backend.device));
    return launch_with_memory(backend, few::forward_kernel<T, is_gradient, rows, ahead>, shares.blocks,
                              few::forward_shared_bytes<T, rows, ahead>(shares.rows.width), "forward_kernel",
                              data_of<const T>(x), data_of<const T>(weight), data_or_null<const T>(bias), data_of<T>(y),
                              shares.rows);
  });
}

// Calls f(T(), S()) with the types of the operands and of the pictures, which may be f32 among halves.
template <class F>
bool visit_pictures(Dtype operands, Dtype pictures, const F& f) {
  return visit_element(operands, [&]<class T>(T) {
    if (pictures == f32) return f(T(), float());
    return f(T(), T());
  });
}

bool picture_forward(Cuda backend, const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& y) {
  return visit_pictures(y.dtype(), x.dtype(), [&]<class T, class S>(T, S) {
    constexpr int rows = PictureForwardStages<T>::rows;
    constexpr int ahead = PictureForwardStages<T>::ahead;
    const Shares shares = share(s, rows, 2 * gpu::multiprocessors(backend.device));
    return launch_with_memory(backend, few::picture_forward_kernel<T, S, rows, ahead>, shares.blocks,
                              few::picture_forward_bytes<S, rows, ahead>(shares.rows.width), "picture_forward_kernel",
                              data_of<const S>(x), data_of<const T>(weight), data_or_null<const T>(bias), data_of<T>(y),
                              shares.rows);
  });
}

bool picture_filter(Cuda backend, const ConvShape& s, const Tensor& x, const Tensor& dy, const Tensor& result) {
  return visit_pictures(dy.dtype(), x.dtype(), [&]<class T, class S>(T, S) {
    constexpr int rows = PictureFilterStages<T>::rows;
    constexpr int ahead = PictureFilterStages<T>::ahead;
    const Shares shares = share(s, rows, 2 * gpu::multiprocessors(backend.device));
    const Tensor partial = partials_for(backend, shares.blocks, result);
    if (!launch_with_memory(backend, few::picture_filter_kernel<T, S, rows, ahead>, shares.blocks,
                            few::picture_filter_bytes<T, S, rows, ahead>(shares.rows.width), "picture_filter_kernel",
                            data_of<const S>(x), data_of<const T>(dy), partial.data<float>(), shares.rows))
      return false;
    sum_partials(backend, partial, shares.blocks, result);
    return true;
  });
}

template <int stride>
bool narrow_filter(Cuda backend, const ConvShape& s, const Tensor& x, const Tensor& dy, const Tensor& result) {
  const auto run = [&]<class T>(T) {
    using Stages = FilterStages<T>;
    constexpr int per_multiprocessor = 2;
    const int slices = static_cast<int>(s.out_channels / slice);
    const Shares shares = share(s, Stages::rows, per_multiprocessor * gpu::multiprocessors(backend.device) / slices);
    const Tensor partial = partials_for(backend, shares.blocks, result);
    const few::FilterProblem<T> problem{data_of<const T>(x),          data_of<const T>(dy),
                                        partial.data<float>(),        shares.rows,
                                        static_cast<int>(s.channels), static_cast<int>(s.out_channels)};
    if (!launch_with_memory(
            backend, few::filter_kernel<T, stride, Stages::m_tiles, Stages::rows, Stages::ahead, per_multiprocessor>,
            dim3(shares.blocks, static_cast<unsigned>(slices)),
            few::filter_shared_bytes<T, stride, Stages::m_tiles, Stages::rows, Stages::ahead>(shares.rows.width),
            "filter_kernel", problem))
      return false;
    sum_partials(backend, partial, shares.blocks, result);
    return true;
  };
  if constexpr (stride == 1)
    return visit_element(x.dtype(), run);
  else
    return run(float());  // in half types cuDNN is faster here
}

bool done(bool ran) {
  if (ran) last_conv_engine() = "direct";
  return ran;
}

}  // namespace

bool direct_reads_f32(Cuda backend, const ConvShape& s, Dtype dtype) {
  return is_half(dtype) && is_from_pictures(backend, s, dtype);
}

bool direct_forward(Cuda backend, const ConvShape& s, const Tensor& input, const Tensor& weight, const Tensor& bias,
                    const Tensor& output) {
  if (output.numel() == 0 || !is_aligned(input) || !is_aligned(output)) return false;
  const gpu::DeviceGuard guard(backend.device);
  const Dtype dtype = weight.dtype();
  if (is_from_pictures(backend, s, dtype)) {
    if (!picture_forward(backend, s, input, weight, bias, output)) return false;
  } else if (input.dtype() != dtype || !is_narrow(backend, s, dtype) ||
             !narrow_convolution<false>(backend, s, input, weight, bias, output)) {
    return false;
  }
  return done(true);
}

bool direct_data_gradient(Cuda backend, const ConvShape& s, const Tensor& output_gradient, const Tensor& weight,
                          const Tensor& input_gradient) {
  if (input_gradient.numel() == 0 || !is_aligned(output_gradient) || !is_aligned(input_gradient)) return false;
  const gpu::DeviceGuard guard(backend.device);
  return done(is_narrow(backend, s, weight.dtype()) &&
              narrow_convolution<true>(backend, s, output_gradient, weight, {}, input_gradient));
}

bool direct_filter_gradient(Cuda backend, const ConvShape& s, const Tensor& input, const Tensor& output_gradient,
                            const Tensor& weight_gradient) {
  if (input.numel() == 0 || !is_aligned(input) || !is_aligned(output_gradient)) return false;
  const gpu::DeviceGuard guard(backend.device);
  const Dtype dtype = output_gradient.dtype();
  if (is_from_pictures(backend, s, dtype))
    return done(picture_filter(backend, s, input, output_gradient, weight_gradient));
  if (input.dtype() != dtype) return false;
  if (is_narrow_filter(backend, s, dtype))
    return done(narrow_filter<2>(backend, s, input, output_gradient, weight_gradient));
  return done(is_narrow(backend, s, dtype) && narrow_filter<1>(backend, s, input, output_gradient, weight_gradient));
}

}  // namespace bevel::detail
