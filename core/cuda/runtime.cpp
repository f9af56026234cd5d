#include <bevel/core/cuda/runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <utility>

namespace bevel::gpu {

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(what, ": ", cublasGetStatusName(status), ", ", cublasGetStatusString(status));
}

void DeviceGuard::change(Device device) {
  check(cudaGetDevice(&previous_), "cudaGetDevice");
  if (previous_ != device.index) check(cudaSetDevice(device.index), "cudaSetDevice");
}

void DeviceGuard::restore() const {
  int now = previous_;
  if (cudaGetDevice(&now) == cudaSuccess && now != previous_) cudaSetDevice(previous_);
}

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // no driver: no device
  return 0;
}

void synchronize(Device device) {
  bevel::detail::refuse_while_recording("synchronize");
  const DeviceGuard guard(device);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::shared_ptr<void> make_stream(Device device) {
  const DeviceGuard guard(device);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return {stream, [](void* handle) { cudaStreamDestroy(static_cast<cudaStream_t>(handle)); }};
}

void synchronize_stream(void* stream, Device device) {
  bevel::detail::refuse_while_recording("Stream::synchronize");
  const DeviceGuard guard(device);
  check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "cudaStreamSynchronize");
}

Event make_event(bool timed) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming), "cudaEventCreate");
  return Event(event);
}

void* allocate(std::size_t bytes, Device device) {
  const DeviceGuard guard(device);
  void* data = nullptr;
  // While this thread or another one records a graph, allocations are allowed in this mode only.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  const cudaError_t status = cudaMalloc(&data, bytes);
  cudaThreadExchangeStreamCaptureMode(&mode);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(status, "cudaMalloc");
  return data;
}

void free(void* data, Device device) noexcept {
  int previous = 0;
  if (cudaGetDevice(&previous) != cudaSuccess) return;  // the runtime is already gone at the end of the process
  cudaSetDevice(device.index);
  cudaFree(data);
  cudaSetDevice(previous);
}

std::pair<std::size_t, std::size_t> free_and_total_memory(Device device) {
  const DeviceGuard guard(device);
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {free, total};
}

namespace {
struct CublasDeleter {
  void operator()(cublasHandle_t handle) const noexcept { cublasDestroy(handle); }
};
using CublasHandle = std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, CublasDeleter>;
}  // namespace

cublasHandle_t cublas(Device device) {
  // A handle for each thread, device and stream: cuBLAS gives the same bits again only with a workspace of its own for
  // each stream. Kept to the end of the process: destroying them at thread exit would synchronise the device.
  struct Key {
    int device;
    void* stream;
    auto operator<=>(const Key&) const = default;
  };
  thread_local auto& handles = *new std::map<Key, CublasHandle>;
  const cudaStream_t current = stream(device);
  CublasHandle& handle = handles[{device.index, current}];
  if (!handle) {
    const DeviceGuard guard(device);
    cublasHandle_t made = nullptr;
    check(cublasCreate(&made), "cublasCreate");
    handle.reset(made);
    check(cublasSetStream(made, current), "cublasSetStream");
    check(cublasSetAtomicsMode(made, CUBLAS_ATOMICS_NOT_ALLOWED), "cublasSetAtomicsMode");
    // Half precision is summed in f32 throughout, also where a long sum is cut and its parts are added.
    constexpr auto mode =
        static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    check(cublasSetMathMode(made, mode), "cublasSetMathMode");
  }
  return handle.get();
}

int multiprocessors(Device device) {
  static std::array<std::atomic<int>, 64> counts{};
  std::atomic<int>& count = counts[static_cast<std::size_t>(device.index)];
  if (count == 0) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device.index), "cudaDeviceGetAttribute");
    count = value;
  }
  return count;
}

namespace {

constexpr std::size_t most_bytes_taken_along = 64;

// A copy from ordinary host memory returns when it has been read, wherever the device is, unless the device reads such
// memory by itself.
bool returns_when_read(const void* host, Device device) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, host), "cudaPointerGetAttributes");
  if (attributes.type != cudaMemoryTypeUnregistered) return false;
  static std::array<std::atomic<int>, 64> shared{};  // 0: not known yet, 1: no, 2: yes
  std::atomic<int>& known = shared[static_cast<std::size_t>(device.index)];
  if (known == 0) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, cudaDevAttrPageableMemoryAccessUsesHostPageTables, device.index),
          "cudaDeviceGetAttribute");
    known = value ? 2 : 1;
  }
  return known == 1;
}

void write_numbers(void* to, const void* from, std::size_t bytes, Device device) {
  bevel::detail::Transfers transfers;
  for (std::size_t begin = 0; begin < bytes; begin += sizeof(std::uint64_t)) {
    const std::size_t count = std::min(bytes - begin, sizeof(std::uint64_t));
    std::uint64_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(from) + begin, count);
    transfers.numbers.push_back({static_cast<char*>(to) + begin, bits, count});
  }
  transfer(device, transfers);
}

// A graph reads and writes host memory again at each replay, when the host may have done something else with it.
void refuse_in_capture(Device device) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream(device), &status), "cudaStreamIsCapturing");
  require(status == cudaStreamCaptureStatusNone, "a copy between host and ", device,
          " cannot be part of a CUDA graph; do it before the capture");
}

}  // namespace

void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  const Device device = to_device.is_cuda() ? to_device : from_device;
  if (!from_device.is_cuda() && bytes <= most_bytes_taken_along) return write_numbers(to, from, bytes, device);
  const DeviceGuard guard(device);
  if (!to_device.is_cuda() || !from_device.is_cuda()) {
    bevel::detail::refuse_while_recording("a copy between host and device");
    refuse_in_capture(device);
  }
  if (to_device.is_cuda() && from_device.is_cuda() && to_device != from_device)
    order(current_stream(from_device), current_stream(to_device));
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream(device)), "cudaMemcpyAsync");
  const bool may_change = !from_device.is_cuda() && !returns_when_read(from, device);
  if (!to_device.is_cuda() || may_change) check(cudaStreamSynchronize(stream(device)), "cudaStreamSynchronize");
}

void fill_zero(void* data, Device device, std::size_t bytes) {
  const DeviceGuard guard(device);
  check(cudaMemsetAsync(data, 0, bytes, stream(device)), "cudaMemsetAsync");
}

}  // namespace bevel::gpu
