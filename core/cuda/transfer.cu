#include <bevel/core/cuda/runtime.h>
#include <bevel/core/cuda/transfer_node.h>
#include <bevel/core/cuda/launch.cuh>

#include <algorithm>
#include <cstdint>

namespace bevel::gpu {

namespace {

using bevel::detail::Transfers;

constexpr int threads = 256;
constexpr int most_copies = 16;
constexpr int most_numbers = 32;

struct Batch {
  Transfers::Copy copies[most_copies];
  Transfers::Number numbers[most_numbers];
  int copy_count = 0;
  int number_count = 0;
};

__device__ void copy_array(const Transfers::Copy& copy, std::size_t first, std::size_t step) {
  auto* const to = static_cast<unsigned char*>(copy.to);
  const auto* const from = static_cast<const unsigned char*>(copy.from);
  const bool aligned = (reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % 16 == 0;
  const std::size_t packs = aligned ? copy.bytes / 16 : 0;
  for (std::size_t i = first; i < packs; i += step)
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  for (std::size_t i = packs * 16 + first; i < copy.bytes; i += step) to[i] = from[i];
}

__global__ void __launch_bounds__(threads) transfer_kernel(const __grid_constant__ Batch batch) {
  begin_kernel();
  const std::size_t first = std::size_t{blockIdx.x} * threads + threadIdx.x;
  const std::size_t step = std::size_t{gridDim.x} * threads;
  for (int i = 0; i < batch.copy_count; ++i) copy_array(batch.copies[i], first, step);
  if (blockIdx.x > 0 || threadIdx.x >= batch.number_count) return;
  const Transfers::Number& number = batch.numbers[threadIdx.x];
  if (number.bytes == 8 && reinterpret_cast<std::uintptr_t>(number.to) % 8 == 0) {
    *static_cast<std::uint64_t*>(number.to) = number.bits;
    return;
  }
  for (std::size_t i = 0; i < number.bytes; ++i)
    static_cast<unsigned char*>(number.to)[i] = static_cast<unsigned char>(number.bits >> (8 * i));
}

unsigned blocks_for(Device device, const Batch& batch) {
  std::size_t bytes = 0;
  for (int i = 0; i < batch.copy_count; ++i) bytes = std::max(bytes, batch.copies[i].bytes);
  const std::size_t most = 4 * static_cast<std::size_t>(multiprocessors(device));
  return static_cast<unsigned>(std::clamp<std::size_t>((bytes / 16 + threads - 1) / threads, 1, most));
}

void launch_batch(Device device, const Batch& batch) {
  launch(transfer_kernel, {.blocks = blocks_for(device, batch), .threads = threads, .stream = stream(device)},
         "transfer", batch);
}

// Goes through transfers batch by batch.
struct Batches {
  const Transfers& transfers;
  std::size_t copies = 0;
  std::size_t numbers = 0;

  bool done() const { return copies == transfers.copies.size() && numbers == transfers.numbers.size(); }
  Batch next() {
    Batch batch;
    for (; batch.copy_count < most_copies && copies < transfers.copies.size(); ++copies)
      batch.copies[batch.copy_count++] = transfers.copies[copies];
    for (; batch.number_count < most_numbers && numbers < transfers.numbers.size(); ++numbers)
      batch.numbers[batch.number_count++] = transfers.numbers[numbers];
    return batch;
  }
};

// The node that was recorded last.
cudaGraphNode_t last_node(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
#if CUDART_VERSION >= 13000
  check(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, nullptr, &count),
        "cudaStreamGetCaptureInfo");
#else
  check(cudaStreamGetCaptureInfo_v3(stream, &status, nullptr, nullptr, &nodes, nullptr, &count),
        "cudaStreamGetCaptureInfo");
#endif
  require(status == cudaStreamCaptureStatusActive && count == 1, "capture: a transfer was not recorded");
  return nodes[0];
}

}  // namespace

void transfer(Device device, const Transfers& transfers) {
  const DeviceGuard guard(device);
  for (Batches batches{transfers}; !batches.done();) launch_batch(device, batches.next());
}

TransferNode record_transfers(Device device) {
  const DeviceGuard guard(device);
  launch_batch(device, {});
  return {last_node(stream(device))};
}

Transfers set_transfers(const Graph& graph, const TransferNode& node, const Transfers& transfers, Device device) {
  const DeviceGuard guard(device);
  Batches batches{transfers};
  Batch batch = batches.next();
  void* arguments[] = {&batch};
  cudaKernelNodeParams parameters{};
  parameters.func = reinterpret_cast<void*>(transfer_kernel);
  parameters.gridDim = blocks_for(device, batch);
  parameters.blockDim = threads;
  parameters.kernelParams = arguments;
  check(cudaGraphExecKernelNodeSetParams(static_cast<cudaGraphExec_t>(graph.executable.get()),
                                         static_cast<cudaGraphNode_t>(node.node), &parameters),
        "cudaGraphExecKernelNodeSetParams");
  Transfers rest;
  if (batches.done()) return rest;
  rest.copies.assign(transfers.copies.begin() + static_cast<std::ptrdiff_t>(batches.copies), transfers.copies.end());
  rest.numbers.assign(transfers.numbers.begin() + static_cast<std::ptrdiff_t>(batches.numbers),
                      transfers.numbers.end());
  return rest;
}

}  // namespace bevel::gpu
