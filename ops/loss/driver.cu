#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/loss/detail/driver.h>
#include <bevel/ops/loss/raw.h>

#include <map>
#include <mutex>

namespace bevel::detail {

namespace {

// The current stream, with its workspace.
raw::OnStream on_stream(Cuda backend) {
  // By device and stream, kept to the end of the process. The stream is kept with its workspace: else another stream
  // could get the same handle while a kernel of this one still runs.
  struct Entry {
    Stream stream;
    std::shared_ptr<Buffer> buffer;
    raw::OnStream where;
  };
  static std::mutex mutex;
  static auto& entries = *new std::map<std::pair<int, void*>, Entry>;
  Stream stream = current_stream(backend.device);
  const std::lock_guard lock(mutex);
  Entry& entry = entries[{backend.device.index, stream.handle()}];
  if (!entry.buffer) {
    auto buffer = Buffer::allocate(raw::loss_workspace_bytes, backend.device);
    void* const data = buffer->data();
    gpu::fill_zero(data, backend.device, buffer->bytes());
    const raw::OnStream where{stream.handle(), data, buffer->bytes()};
    entry = {std::move(stream), std::move(buffer), where};
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
