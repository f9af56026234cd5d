#include <bevel/core/cuda/runtime.h>

#include <mutex>
#include <utility>
#include <vector>

namespace bevel::gpu {

namespace {

// The streams that are being recorded, each with an event behind the work that was queued on it before. An event of a
// stream under recording would draw whoever waits for it into the recording.
struct Capture {
  cudaStream_t stream;
  Event before;
};
struct Captures {
  std::mutex mutex;
  std::vector<Capture> list;

  const Capture* find(cudaStream_t stream) const {
    for (const Capture& capture : list)
      if (capture.stream == stream) return &capture;
    return nullptr;
  }
  void erase(cudaStream_t stream) {
    std::erase_if(list, [&](const Capture& capture) { return capture.stream == stream; });
  }
};

Captures& captures() {
  static Captures& all = *new Captures;
  return all;
}

}  // namespace

void order_streams(void* earlier, void* later, Device device) {
  const DeviceGuard guard(device);
  const auto before = static_cast<cudaStream_t>(earlier);
  const auto after = static_cast<cudaStream_t>(later);
  const std::lock_guard lock(captures().mutex);
  if (const Capture* capture = captures().find(before))
    return check(cudaStreamWaitEvent(after, capture->before.get()), "cudaStreamWaitEvent");
  const Event event = make_event();
  check(cudaEventRecord(event.get(), before), "cudaEventRecord");
  check(cudaStreamWaitEvent(after, event.get()), "cudaStreamWaitEvent");
}

void begin_capture(void* stream, Device device) {
  const DeviceGuard guard(device);
  const auto handle = static_cast<cudaStream_t>(stream);
  const std::lock_guard lock(captures().mutex);
  Event before = make_event();
  check(cudaEventRecord(before.get(), handle), "cudaEventRecord");
  captures().list.push_back({handle, std::move(before)});
  const cudaError_t status = cudaStreamBeginCapture(handle, cudaStreamCaptureModeRelaxed);
  if (status != cudaSuccess) captures().erase(handle);
  check(status, "cudaStreamBeginCapture");
}

namespace {

std::pair<std::shared_ptr<void>, cudaError_t> end(void* stream) {
  const auto handle = static_cast<cudaStream_t>(stream);
  const std::lock_guard lock(captures().mutex);
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(handle, &graph);
  captures().erase(handle);
  return {std::shared_ptr<void>(graph, [](void* owned) { cudaGraphDestroy(static_cast<cudaGraph_t>(owned)); }), status};
}

}  // namespace

Graph end_capture(void* stream, Device device) {
  const DeviceGuard guard(device);
  const auto [handle, status] = end(stream);
  check(status, "cudaStreamEndCapture");
  const auto graph = static_cast<cudaGraph_t>(handle.get());
  Graph result;
  check(cudaGraphGetNodes(graph, nullptr, &result.nodes), "cudaGraphGetNodes");
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  // The graph lives as long, since its nodes are the names of those of the executable one.
  result.executable = {executable,
                       [kept = handle](void* owned) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(owned)); }};
  check(cudaGraphUpload(executable, static_cast<cudaStream_t>(stream)), "cudaGraphUpload");
  return result;
}

void abandon_capture(void* stream, Device device) noexcept {
  try {
    const DeviceGuard guard(device);
    end(stream);
  } catch (...) {  // the stream is no worse than before
  }
  cudaGetLastError();
}

std::shared_ptr<void> host_memory(std::size_t bytes, Device device) {
  const DeviceGuard guard(device);
  void* data = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;  // see allocate()
  check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
  cudaThreadExchangeStreamCaptureMode(&mode);
  check(status, "cudaHostAlloc");
  return {data, [](void* memory) { cudaFreeHost(memory); }};
}

void launch_graph(const Graph& graph, void* stream, Device device) {
  const DeviceGuard guard(device);
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph.executable.get()), static_cast<cudaStream_t>(stream)),
        "cudaGraphLaunch");
}

}  // namespace bevel::gpu
