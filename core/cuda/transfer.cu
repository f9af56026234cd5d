#include <bevel/core/cuda/runtime.h>
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

void launch_batch(Device device, const Batch& batch) {
  std::size_t bytes = 0;
  for (int i = 0; i < batch.copy_count; ++i) bytes = std::max(bytes, batch.copies[i].bytes);
  const std::size_t most = 4 * static_cast<std::size_t>(multiprocessors(device));
  const std::size_t blocks = std::clamp<std::size_t>((bytes / 16 + threads - 1) / threads, 1, most);
  launch(transfer_kernel, {.blocks = static_cast<unsigned>(blocks), .threads = threads, .stream = stream(device)},
         "transfer", batch);
}

}  // namespace

void transfer(Device device, const Transfers& transfers) {
  const DeviceGuard guard(device);
  std::size_t copies = 0;
  std::size_t numbers = 0;
  while (copies < transfers.copies.size() || numbers < transfers.numbers.size()) {
    Batch batch;
    for (; batch.copy_count < most_copies && copies < transfers.copies.size(); ++copies)
      batch.copies[batch.copy_count++] = transfers.copies[copies];
    for (; batch.number_count < most_numbers && numbers < transfers.numbers.size(); ++numbers)
      batch.numbers[batch.number_count++] = transfers.numbers[numbers];
    launch_batch(device, batch);
  }
}

}  // namespace bevel::gpu
