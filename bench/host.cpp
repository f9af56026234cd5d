#include "bench/host.h"

#include "bench/case.h"
#include "bench/sampling.h"
#include "bench/timer.h"

#include <bevel/core/autograd.h>
#include <bevel/core/cuda/backend.h>
#include <bevel/core/memory.h>
#include <bevel/core/stream.h>
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/pointwise/inplace.h>
#include <bevel/ops/pointwise/unary.h>

#include <chrono>
#include <cstdio>

namespace bevel::bench {

namespace {

// Nanoseconds of host time a call. The device is waited for between samples, outside the clock, and a sample is short
// enough for the device's queue, so that the host never waits within it.
double host_nanoseconds(Device device, double min_time, const std::function<void()>& call) {
  constexpr int calls = 400;
  for (int i = 0; i < calls; ++i) call();
  const std::vector<double> seconds = sample("host", min_time, 5, [&] {
    synchronize(device);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  synchronize(device);
  return median(seconds) / calls * 1e9;
}

// A launch by the library's shortest way: one kernel that writes a number.
double launch_nanoseconds(Device device, double min_time) {
  if (!device.is_cuda()) return 0;
  const Tensor place = Tensor::zeros({1}, {.device = device});
  detail::Transfers transfers;
  transfers.write(place.data<float>(), 1.0f);
  return host_nanoseconds(device, min_time, [&] {
    if constexpr (has_cuda) gpu::transfer(device, transfers);
  });
}

}  // namespace

void print_host_overhead(Device device, double min_time) {
  const Tensor x = random({4}, f32, device, 1);
  const Tensor y = random({4}, f32, device, 2);
  const Tensor leaf = random({4}, f32, device, 3).set_requires_grad();
  const double launch = launch_nanoseconds(device, min_time);
  std::printf("host time a call on %s, 4 elements of f32; a launch alone: %.0f ns\n", message(device).c_str(), launch);
  std::printf("%-34s %12s %18s\n", "call", "ns", "ns without launch");
  const auto row = [&](const char* name, int launches, const std::function<void()>& call) {
    const double time = host_nanoseconds(device, min_time, call);
    std::printf("%-34s %12.0f %18.0f\n", name, time, time - launches * launch);
  };
  row("current_stream", 0, [&] { (void)current_stream(device).handle(); });
  row("allocate and free", 0, [&] { Buffer::allocate(16, device); });
  row("Tensor::empty", 0, [&] { Tensor::empty({4}, {.device = device}); });
  row("add_ (in place)", 1, [&] { add_(x, y); });
  row("relu", 1, [&] { relu(x); });
  row("add", 1, [&] { add(x, y); });
  row("relu with history", 1, [&] { relu(leaf); });
  row("add with history", 1, [&] { add(leaf, y); });
  row("relu, backward into the leaf", 2, [&] {
    relu(leaf).backward(y);
    leaf.set_grad({});
  });
}

}  // namespace bevel::bench
