#include "bench/host.h"

#include "bench/case.h"
#include "bench/sampling.h"
#include "bench/timer.h"

#include <bevel/core/capture.h>
#include <bevel/core/random.h>
#include <bevel/nn/linear.h>
#include <bevel/nn/optim/adam.h>
#include <bevel/nn/sequential.h>
#include <bevel/ops/loss/smooth_l1.h>

#include <cstdio>

namespace bevel::bench {

namespace {

struct Mlp {
  explicit Mlp(Device device)
      : net{nn::Linear{64, 128, {.activation = Activation::relu}},
            nn::Linear{128, 128, {.activation = Activation::relu}}, nn::Linear{128, 4}},
        optimizer((net.to(device), net.parameters())) {}

  Tensor step(const Tensor& input, const Tensor& target) {
    optimizer.zero_grad();
    Tensor loss = smooth_l1(net(input), target);
    loss.backward();
    optimizer.step();
    return loss;
  }

  nn::Sequential net;
  optim::Adam optimizer;
};

void print_row(const char* name, Device device, double min_time, const Calls& calls) {
  on(device, [&](auto backend) {
    run_calls(backend, calls, 0, 8);
    const Elapsed time = time_back_to_back(backend, name, calls, 1, min_time);
    std::printf("%-34s %10.1f %10.1f\n", name, time.wall * 1e6, time.device * 1e6);
  });
}

}  // namespace

void print_mlp_step(Device device, double min_time) {
  std::printf("one step of an MLP 64-128-128-4 (ReLU, smooth L1, Adam, f32) on %s\n", message(device).c_str());
  std::printf("%-34s %10s %10s\n", "batch, mode", "wall us", "events us");
  for (const std::int64_t batch : {64, 4096}) {
    manual_seed(1);
    Mlp mlp(device);
    const Tensor input = random({batch, 64}, f32, device, 1);
    const Tensor target = random({batch, 4}, f32, device, 2);
    print_row(message(batch, ", eager").c_str(), device, min_time, [&](std::int64_t) { mlp.step(input, target); });
    if (!device.is_cuda()) continue;
    auto step = capture([&](const Tensor& x, const Tensor& y) { return mlp.step(x, y); });
    print_row(message(batch, ", captured").c_str(), device, min_time, [&](std::int64_t) { step(input, target); });
    std::printf("  graph: %zu nodes, %zu bytes\n", step.stats().nodes, step.stats().bytes);
  }
}

}  // namespace bevel::bench
