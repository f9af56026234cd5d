#include "bench/timer.h"

#include <bevel/core/cuda/runtime.h>

#include <chrono>

namespace bevel::bench {

namespace {

double seconds_between(cudaEvent_t begin, cudaEvent_t end) {
  float milliseconds = 0;
  gpu::check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  return milliseconds * 1e-3;
}

}  // namespace

Elapsed run_calls(Cuda backend, const Calls& calls, std::int64_t first, std::int64_t count) {
  const gpu::DeviceGuard guard(backend.device);
  const cudaStream_t stream = gpu::stream(backend);
  const gpu::Event start = gpu::make_event(true);
  const gpu::Event end = gpu::make_event(true);
  gpu::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const auto begin = std::chrono::steady_clock::now();
  gpu::check(cudaEventRecord(start.get(), stream), "cudaEventRecord");
  for (std::int64_t i = first; i < first + count; ++i) calls(i);
  gpu::check(cudaEventRecord(end.get(), stream), "cudaEventRecord");
  gpu::check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  return {seconds_between(start.get(), end.get()), wall.count()};
}

struct GraphTimer::Impl {
  Cuda backend;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  gpu::Event start;
  gpu::Event end;

  ~Impl() {
    if (executable) cudaGraphExecDestroy(executable);
    if (graph) cudaGraphDestroy(graph);
  }
};

GraphTimer::GraphTimer(Cuda backend, const Calls& calls, std::int64_t count) : impl_(std::make_unique<Impl>()) {
  const gpu::DeviceGuard guard(backend.device);
  const cudaStream_t stream = gpu::stream(backend);
  impl_->backend = backend;
  impl_->start = gpu::make_event(true);
  impl_->end = gpu::make_event(true);
  gpu::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  gpu::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    for (std::int64_t i = 0; i < count; ++i) calls(i);
  } catch (...) {
    cudaGraph_t abandoned = nullptr;
    cudaStreamEndCapture(stream, &abandoned);
    if (abandoned) cudaGraphDestroy(abandoned);
    cudaGetLastError();
    throw;
  }
  gpu::check(cudaStreamEndCapture(stream, &impl_->graph), "cudaStreamEndCapture");
  gpu::check(cudaGraphInstantiate(&impl_->executable, impl_->graph, 0), "cudaGraphInstantiate");
  gpu::check(cudaGraphLaunch(impl_->executable, stream), "cudaGraphLaunch");
  gpu::check(cudaStreamSynchronize(stream), "a graph's first replay");
}

GraphTimer::~GraphTimer() = default;

double GraphTimer::replay() {
  const gpu::DeviceGuard guard(impl_->backend.device);
  const cudaStream_t stream = gpu::stream(impl_->backend);
  gpu::check(cudaGraphLaunch(impl_->executable, stream), "cudaGraphLaunch");
  gpu::check(cudaEventRecord(impl_->start.get(), stream), "cudaEventRecord");
  gpu::check(cudaGraphLaunch(impl_->executable, stream), "cudaGraphLaunch");
  gpu::check(cudaEventRecord(impl_->end.get(), stream), "cudaEventRecord");
  gpu::check(cudaEventSynchronize(impl_->end.get()), "cudaEventSynchronize");
  return seconds_between(impl_->start.get(), impl_->end.get());
}

DeviceInfo device_info(Cuda backend) {
  const gpu::DeviceGuard guard(backend.device);
  cudaDeviceProp properties{};
  gpu::check(cudaGetDeviceProperties(&properties, backend.device.index), "cudaGetDeviceProperties");
  const auto [free, total] = gpu::free_and_total_memory(backend.device);
  return {properties.name, properties.l2CacheSize, static_cast<std::int64_t>(free)};
}

}  // namespace bevel::bench
