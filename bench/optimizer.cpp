// One step of an optimiser over all parameters, as a training loop calls it.
#include "bench/case.h"

#include <bevel/nn/optim/adam.h>
#include <bevel/nn/optim/sgd.h>

#include <memory>

namespace bevel::bench {

namespace {

// `count` parameters of one shape.
struct Parameters {
  NamedShape shape;
  std::int64_t count = 1;
  bool quick = false;
};

using OptimizerMaker = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>& parameters)>;

Case make_case(const char* detail, const Parameters& parameters, std::vector<Traffic> floor,
               const OptimizerMaker& make) {
  Case result{"optimizer",
              message(parameters.count, "x[", parameters.shape.text, "]"),
              f32,
              detail,
              "step",
              "",
              parameters.count * parameters.shape.shape.numel() * size_of(f32),
              std::move(floor),
              parameters.quick,
              {}};
  result.make = [=](Device device, std::uint64_t index) {
    std::vector<Tensor> leaves;
    for (std::int64_t i = 0; i < parameters.count; ++i) {
      const std::uint64_t seed = (index << 20) + static_cast<std::uint64_t>(2 * i);
      leaves.push_back(random(parameters.shape.shape, f32, device, seed).set_requires_grad());
      leaves.back().set_grad(random(parameters.shape.shape, f32, device, seed + 1, {-0.01, 0.01}));
    }
    const std::shared_ptr<optim::Optimizer> optimizer = make(leaves);
    return Workset{[] {}, [optimizer] { optimizer->step(); }};
  };
  return result;
}

}  // namespace

std::vector<Case> optimizer_cases(const Selection& selection) {
  std::vector<Parameters> all;
  for (const NamedShape& shape : selection.shapes) all.push_back({shape, 1, true});
  if (all.empty() && selection.device.is_cuda())
    all = {{parse_shape("2^26"), 1, true}, {parse_shape("2^18"), 256, true}, {parse_shape("256"), 256, false}};
  else if (all.empty())
    all = {{parse_shape("2^22"), 1, true}, {parse_shape("256"), 256, false}};
  // Read: parameter, gradient and moments; written: parameter and moments. Split into passes that plain kernels have.
  const std::vector<Traffic> adam{{1, 1}, {1, 1}, {2, 1}};
  const std::vector<Traffic> momentum{{1, 1}, {2, 1}};
  const auto make_adamw = [](const std::vector<Tensor>& leaves) {
    return std::make_unique<optim::AdamW>(leaves, optim::AdamWOptions{.weight_decay = 0.05});
  };
  const auto make_sgd = [](const std::vector<Tensor>& leaves) {
    return std::make_unique<optim::SGD>(leaves, optim::SgdOptions{.momentum = 0.9});
  };
  std::vector<Case> cases;
  for (const Parameters& parameters : all) {
    cases.push_back(make_case("AdamW", parameters, adam, make_adamw));
    cases.push_back(make_case("SGD momentum", parameters, momentum, make_sgd));
  }
  return cases;
}

}  // namespace bevel::bench
