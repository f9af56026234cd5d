// A training step of the box regressor (examples/bbox_regression), without its loader: forward, smooth L1, backward,
// AdamW, in the precisions in which one would train it.
#include "bench/case.h"

#include <bevel/core/random.h>
#include <bevel/nn/conv2d.h>
#include <bevel/nn/evonorm2d.h>
#include <bevel/nn/linear.h>
#include <bevel/nn/optim/adam.h>
#include <bevel/nn/pool2d.h>
#include <bevel/nn/sequential.h>
#include <bevel/ops/autocast.h>
#include <bevel/ops/loss/smooth_l1.h>
#include <bevel/ops/matmul/matmul.h>

namespace bevel::bench {

namespace {

struct StepCase {
  std::int64_t batch = 256;
  std::int64_t side = 128;
  std::int64_t width = 32;
  Dtype dtype = f32;  // f32 on CUDA is TF32
  EvoNorm norm = EvoNorm::S0;
  bool recompute = false;  // the norms' outputs, in backward
};

struct StepSet {
  nn::Sequential net;
  std::unique_ptr<optim::AdamW> optimizer;
  Tensor pictures, boxes, loss;
};

nn::Sequential make_network(const StepCase& c) {
  nn::Sequential net;
  std::int64_t from = 3;
  for (int layer = 0; layer < 8; ++layer) {
    const std::int64_t to = c.width << (layer / 2);
    const std::int64_t stride = layer % 2 == 0 ? 2 : 1;
    net.push_back(nn::Conv2d{from, to, {.kernel = 3, .stride = stride, .padding = 1, .bias = false}});
    net.push_back(nn::EvoNorm2d{to, {.variant = c.norm, .groups = 8, .recompute = c.recompute}});
    from = to;
  }
  net.push_back(nn::GlobalAvgPool{});
  net.push_back(nn::Linear{from, 4});
  return net;
}

Workset make_set(const StepCase& c, Device device, std::uint64_t index) {
  manual_seed(index);
  const auto set = std::make_shared<StepSet>();
  set->net = make_network(c);
  set->net.to(device);
  set->optimizer =
      std::make_unique<optim::AdamW>(set->net.parameters(), optim::AdamWOptions{.lr = 1e-3, .weight_decay = 0.05});
  set->pictures = random({c.batch, c.side, c.side, 3}, f32, device, 2 * index + 1, {0, 1});
  set->boxes = random({c.batch, 4}, f32, device, 2 * index + 2, {0, 1});
  const auto drop = [set] {
    set->loss = {};
    set->optimizer->zero_grad();
  };
  return {drop, [=] {
            set_matmul_precision(device.is_cuda() ? Precision::tf32 : Precision::full);
            drop();
            set->loss = [&] {
              const Autocast scope(c.dtype);
              return smooth_l1(set->net(set->pictures), set->boxes, {.beta = 1.0 / 9});
            }();
            set->loss.backward();
            set->optimizer->step();
          }};
}

void append(std::vector<Case>& cases, const StepCase& c, bool quick) {
  cases.push_back({"regressor",
                   message(c.batch, "x", c.side, "x", c.side),
                   c.dtype,
                   c.recompute ? message(name(c.norm), " recomputed") : name(c.norm),
                   "step",
                   "",
                   0,
                   {},
                   quick,
                   [c](Device device, std::uint64_t index) { return make_set(c, device, index); }});
}

}  // namespace

std::vector<Case> regressor_cases(const Selection& selection) {
  std::vector<Case> cases;
  if (!selection.device.is_cuda()) {
    append(cases, {.batch = 32, .side = 64, .width = 16}, true);
    return cases;
  }
  append(cases, {.batch = 64, .dtype = f32}, true);
  append(cases, {.batch = 64, .dtype = f32, .norm = EvoNorm::B0}, false);
  append(cases, {.batch = 256, .dtype = f32}, true);
  append(cases, {.batch = 256, .dtype = bf16}, true);
  append(cases, {.batch = 256, .dtype = bf16, .norm = EvoNorm::B0}, true);
  append(cases, {.batch = 256, .dtype = bf16, .recompute = true}, true);
  append(cases, {.batch = 256, .dtype = bf16, .norm = EvoNorm::B0, .recompute = true}, false);
  append(cases, {.batch = 256, .dtype = f16}, false);
  return cases;
}

}  // namespace bevel::bench
