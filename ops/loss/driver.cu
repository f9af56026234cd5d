#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/loss/detail/driver.h>
#include <bevel/ops/loss/raw.h>

#include <map>
#include <mutex>

namespace bevel::detail {

namespace {

// Zeroed device memory, ready when this returns, and never given back. Also while the current stream is being captured:
// what belongs to the stream must not become a part of the graph.
void* make_workspace(Device device) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  gpu::check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  void* data = gpu::allocate(raw::loss_workspace_bytes, device);
  if (data) {
    const std::shared_ptr<void> stream = gpu::make_stream(device);
    const auto handle = static_cast<cudaStream_t>(stream.get());
    gpu::check(cudaMemsetAsync(data, 0, raw::loss_workspace_bytes, handle), "cudaMemsetAsync");
    gpu::check(cudaStreamSynchronize(handle), "cudaStreamSynchronize");
  }
  gpu::check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  if (!data) throw OutOfMemory(message("loss: no memory for a workspace of ", raw::loss_workspace_bytes, " bytes"));
  return data;
}

// The current stream, with its workspace.
raw::OnStream on_stream(Cuda backend) {
  // By device and stream, kept to the end of the process. The stream is kept with its workspace: else another stream
  // could get the same handle while a kernel of this one still runs.
  struct Entry {
    Stream stream;
    raw::OnStream where;
  };
  static std::mutex mutex;
  static auto& entries = *new std::map<std::pair<int, void*>, Entry>;
  Stream stream = current_stream(backend.device);
  void* const handle = stream.handle();
  const std::lock_guard lock(mutex);
  Entry& entry = entries[{backend.device.index, handle}];
  if (!entry.where.workspace) {
    entry.where = {handle, make_workspace(backend.device), raw::loss_workspace_bytes};
    entry.stream = std::move(stream);
  }
  return entry.where;
}

}  // namespace

void run_pass(Cuda backend, const LossKernels& kernels, const LossPass& pass) {
  const gpu::DeviceGuard guard(backend.device);
  kernels.launch(on_stream(backend), pass);
}

void scale_gradient(Cuda backend, const raw::GradientScale& scale) {
  const gpu::DeviceGuard guard(backend.device);
  raw::scale_gradient(raw::OnStream{.stream = gpu::stream(backend)}, scale);
}

}  // namespace bevel::detail
