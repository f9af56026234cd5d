// Devices and backends. on(device, f) is the only place where a run-time device becomes a compile-time backend.
#pragma once

#include <bevel/config.h>
#include <bevel/core/error.h>

#include <cstdint>
#include <ostream>
#include <utility>

namespace bevel {

enum class DeviceType : std::uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int8_t index = 0;

  bool is_cuda() const { return type == DeviceType::cuda; }
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device cpu{};
constexpr Device cuda(int index = 0) {
  return {DeviceType::cuda, static_cast<std::int8_t>(index)};
}

// Writes "cpu" or "cuda:0".
std::ostream& operator<<(std::ostream& out, Device device);

// How many CUDA devices this build can use now; 0 in a CPU-only build or without a driver.
int cuda_device_count();

// cuda(0) where there is one, else cpu.
Device best_device();

// Reads "cpu", "cuda", "cuda:1" or "auto" (best_device()); anything else is an Error.
Device parse_device(const std::string& text);

// Waits until all work queued on the device is done. Nothing to do on the CPU.
void synchronize(Device device);

// Backend tags: a kernel is a set of overloads on them.
struct Cpu {};
struct Cuda {
  Device device;
};

// Calls f(Cpu{}) or f(Cuda{device}). In a CPU-only build the call with Cuda is never instantiated, so its overloads
// need no definition.
template <class F>
decltype(auto) on(Device device, F&& f) {
  if constexpr (has_cuda) {
    if (device.is_cuda()) return std::forward<F>(f)(Cuda{device});
  } else {
    require(!device.is_cuda(), "this build of Bevel has no CUDA; the tensor is on ", device);
  }
  return std::forward<F>(f)(Cpu{});
}

}  // namespace bevel
