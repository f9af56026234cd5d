#include <bevel/ops/loss/detail/driver.h>
#include <bevel/ops/loss/detail/kernels.cuh>

#include <map>
#include <mutex>

namespace bevel::detail {

LossWorkspace loss_workspace(Cuda backend) {
  // By device and stream, kept to the end of the process. The stream is kept with its workspace: else another stream
  // could get the same handle while a kernel of this one still runs.
  struct Entry {
    Stream stream;
    std::shared_ptr<Buffer> buffer;
    LossWorkspace workspace;
  };
  static std::mutex mutex;
  static auto& entries = *new std::map<std::pair<int, void*>, Entry>;
  Stream stream = current_stream(backend.device);
  const std::lock_guard lock(mutex);
  Entry& entry = entries[{backend.device.index, stream.handle()}];
  if (!entry.buffer) {
    constexpr std::size_t partial_bytes = loss_max_blocks * sizeof(double);
    auto buffer = Buffer::allocate(partial_bytes + sizeof(unsigned), backend.device);
    auto* data = static_cast<char*>(buffer->data());
    gpu::fill_zero(data, backend.device, buffer->bytes());
    entry = {std::move(stream),
             std::move(buffer),
             {reinterpret_cast<double*>(data), reinterpret_cast<unsigned*>(data + partial_bytes)}};
  }
  return entry.workspace;
}

void run_pass(Cuda backend, const LossKernels& kernels, const LossPass& pass) {
  kernels.launch(backend, pass);
}

namespace {

template <class T>
__global__ void __launch_bounds__(loss_threads)
    scale_kernel(const T* from, const compute_t<T>* factor, T* to, std::int64_t packs, std::int64_t count) {
  using C = compute_t<T>;
  constexpr int width = loss_width<T>;
  const Number<C> f = *factor;
  const auto scaled = [f](T value) { return round_to<T>((Number<C>(static_cast<C>(value)) * f).value); };
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * loss_threads;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * loss_threads + threadIdx.x;
  for (std::int64_t p = thread; p < packs; p += stride) {
    LossPack<T> pack = reinterpret_cast<const LossPack<T>*>(from)[p];
    for (int k = 0; k < width; ++k) pack.at[k] = scaled(pack.at[k]);
    store_pack(to, p, pack);
  }
  for (std::int64_t i = packs * width + thread; i < count; i += stride) to[i] = scaled(from[i]);
}

}  // namespace

void scale_gradient(Cuda backend, const Tensor& from, const Tensor& factor, const Tensor& to) {
  const gpu::DeviceGuard guard(backend.device);
  visit_floating(from.dtype(), "loss", [&]<class T>() {
    const bool packable =
        (reinterpret_cast<std::uintptr_t>(from.raw()) | reinterpret_cast<std::uintptr_t>(to.raw())) % 16 == 0;
    const std::int64_t packs = packable ? from.numel() / loss_width<T> : 0;
    scale_kernel<T><<<loss_blocks(backend, packs ? packs : from.numel()), loss_threads, 0, gpu::stream(backend)>>>(
        from.data<T>(), factor.data<compute_t<T>>(), to.data<T>(), packs, from.numel());
  });
  gpu::check(cudaGetLastError(), "scale_kernel");
}

}  // namespace bevel::detail
