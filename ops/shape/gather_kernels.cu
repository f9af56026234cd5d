#include <bevel/core/cuda/runtime.h>
#include <bevel/core/detail/later_check.h>
#include <bevel/ops/kernel/width.h>
#include <bevel/ops/shape/detail/gather_kernels.h>

#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <bit>

namespace bevel::detail {

namespace {

constexpr int threads = 256;

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((count + threads - 1) / threads, 1, 1 << 30));
}

__device__ __forceinline__ std::int64_t first_element() {
  return std::int64_t{blockIdx.x} * threads + threadIdx.x;
}
__device__ __forceinline__ std::int64_t element_step() {
  return std::int64_t{gridDim.x} * threads;
}

// An index out of range becomes the key `none`, which belongs to no row.
template <class Index>
__global__ void __launch_bounds__(threads)
    make_keys_kernel(const Index* index, std::int64_t count, IndexMeaning meaning, std::int64_t none,
                     std::int64_t* keys, int* out_of_range) {
  for (std::int64_t p = first_element(); p < count; p += element_step()) {
    const std::int64_t i = index[p];
    const bool fits = i >= 0 && i < meaning.size;
    keys[p] = fits ? meaning.key(p, i) : none;
    if (!fits) *out_of_range = 1;  // all who write write the same
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    take_rows_kernel(const T* x, IndexedRows rows, const std::int64_t* keys, std::int64_t count, T* out) {
  const std::int64_t numel = rows.outer * count * rows.inner;
  for (std::int64_t i = first_element(); i < numel; i += element_step()) {
    const std::int64_t row = i / rows.inner;
    const std::int64_t key = keys[row % count];
    out[i] = key < rows.size ? x[(row / count * rows.size + key) * rows.inner + i % rows.inner] : T(0);
  }
}

__global__ void __launch_bounds__(threads) count_up(std::int64_t* values, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) values[i] = i;
}

// starts[c] = how many sorted keys are less than c, for 0 <= c <= size.
__global__ void __launch_bounds__(threads)
    find_starts(const std::uint64_t* sorted, std::int64_t count, std::int64_t size, std::int64_t* starts) {
  for (std::int64_t c = first_element(); c <= size; c += element_step()) {
    std::int64_t low = 0;
    std::int64_t high = count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (sorted[middle] < static_cast<std::uint64_t>(c))
        low = middle + 1;
      else
        high = middle;
    }
    starts[c] = low;
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    add_rows_kernel(const T* source, IndexedRows rows, std::int64_t count, const std::int64_t* starts,
                    const std::int64_t* order, T* out) {
  const std::int64_t numel = rows.outer * rows.size * rows.inner;
  for (std::int64_t i = first_element(); i < numel; i += element_step()) {
    const std::int64_t row = i / rows.inner;
    const std::int64_t c = row % rows.size;
    const T* column = source + row / rows.size * count * rows.inner + i % rows.inner;
    compute_t<T> acc = 0;
    for (std::int64_t s = starts[c]; s < starts[c + 1]; ++s)
      acc += static_cast<compute_t<T>>(column[order[s] * rows.inner]);
    out[i] = static_cast<T>(acc);
  }
}

bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  gpu::check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

void make_keys(Cuda backend, const Tensor& index, const IndexMeaning& meaning, const Tensor& keys,
               const char* function) {
  const std::int64_t count = index.numel();
  if (count == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  const cudaStream_t stream = gpu::stream(backend);
  const Tensor flag = Tensor::zeros({1}, {.dtype = i32, .device = backend.device});
  std::int64_t* const to = keys.data<std::int64_t>();
  int* const out_of_range = flag.data<std::int32_t>();
  const std::int64_t none = meaning.flat ? count / meaning.count * meaning.size : meaning.size;
  if (index.dtype() == i32)
    make_keys_kernel<<<blocks_for(count), threads, 0, stream>>>(index.data<std::int32_t>(), count, meaning, none, to,
                                                                out_of_range);
  else
    make_keys_kernel<<<blocks_for(count), threads, 0, stream>>>(index.data<std::int64_t>(), count, meaning, none, to,
                                                                out_of_range);
  gpu::check(cudaGetLastError(), "make_keys");
  if (recording)
    return check_after_replay(flag, message(function, ": an index lies outside an axis of size ", meaning.size));
  if (capturing(stream)) return;
  require(flag.item() == 0, function, ": an index lies outside an axis of size ", meaning.size);
}

void take_rows(Cuda backend, const Tensor& x, const IndexedRows& rows, const Tensor& keys, const Tensor& out) {
  if (out.numel() == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  kernel::visit_width(size_of(x.dtype()), [&]<class T>(T) {
    take_rows_kernel<T><<<blocks_for(out.numel()), threads, 0, gpu::stream(backend)>>>(
        static_cast<const T*>(x.raw()), rows, keys.data<std::int64_t>(), keys.numel(), static_cast<T*>(out.raw()));
    gpu::check(cudaGetLastError(), "take_rows");
  });
}

void add_rows(Cuda backend, const Tensor& source, const IndexedRows& rows, const Tensor& keys, const Tensor& out) {
  if (out.numel() == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  const cudaStream_t stream = gpu::stream(backend);
  const std::int64_t count = keys.numel();
  const TensorOptions indices{.dtype = i64, .device = backend.device};
  const Tensor places = Tensor::empty({count}, indices);
  const Tensor order = Tensor::empty({count}, indices);
  const Tensor sorted = Tensor::empty({count}, indices);
  const Tensor starts = Tensor::empty({rows.size + 1}, indices);
  auto* const sorted_keys = static_cast<std::uint64_t*>(sorted.raw());
  if (count > 0) {
    count_up<<<blocks_for(count), threads, 0, stream>>>(places.data<std::int64_t>(), count);
    gpu::check(cudaGetLastError(), "count_up");
    const int bits = std::bit_width(static_cast<std::uint64_t>(rows.size));
    std::size_t bytes = 0;
    const auto sort = [&](void* memory) {
      gpu::check(cub::DeviceRadixSort::SortPairs(memory, bytes, static_cast<const std::uint64_t*>(keys.raw()),
                                                 sorted_keys, places.data<std::int64_t>(), order.data<std::int64_t>(),
                                                 count, 0, bits, stream),
                 "cub::DeviceRadixSort");
    };
    sort(nullptr);
    const Tensor memory =
        Tensor::empty({static_cast<std::int64_t>(bytes)}, {.dtype = Dtype::u8, .device = backend.device});
    sort(memory.raw());
  }
  find_starts<<<blocks_for(rows.size + 1), threads, 0, stream>>>(sorted_keys, count, rows.size,
                                                                 starts.data<std::int64_t>());
  gpu::check(cudaGetLastError(), "find_starts");
  visit_floating(source.dtype(), "scatter_add", [&]<class T>() {
    add_rows_kernel<T><<<blocks_for(out.numel()), threads, 0, stream>>>(
        source.data<T>(), rows, count, starts.data<std::int64_t>(), order.data<std::int64_t>(), out.data<T>());
    gpu::check(cudaGetLastError(), "add_rows");
  });
}

}  // namespace bevel::detail
