// Optimisers against values made by PyTorch; tests/golden/make_optimizers.py makes them.
#include <bevel/nn/clip.h>
#include <bevel/nn/optim/adam.h>
#include <bevel/nn/optim/lion.h>
#include <bevel/nn/optim/sgd.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <memory>

#include "testing.h"

namespace bevel {
namespace {

using namespace bevel::testing;
using Json = nlohmann::json;

class OptimGoldenTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, OptimGoldenTest, ::testing::ValuesIn(build_devices()), device_name);

std::unique_ptr<optim::Optimizer> optimizer_named(const std::string& name, const Tensor& p) {
  const std::vector<Tensor> all{p};
  if (name == "sgd")
    return std::make_unique<optim::SGD>(
        all, optim::SgdOptions{.lr = 0.05, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.1});
  if (name == "adam")
    return std::make_unique<optim::Adam>(
        all, optim::AdamOptions{.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1});
  if (name == "adamw") return std::make_unique<optim::AdamW>(all, optim::AdamWOptions{.lr = 0.02, .weight_decay = 0.2});
  if (name == "lion") return std::make_unique<optim::Lion>(all, optim::LionOptions{.lr = 0.01, .weight_decay = 0.3});
  fail("no optimizer ", name);
}

TEST_P(OptimGoldenTest, AgreesWithPyTorch) {
  std::ifstream file(BEVEL_TEST_DATA "/golden/optimizers.json");
  if (!file) GTEST_SKIP() << "tests/golden/optimizers.json is missing; make_optimizers.py beside it makes it";
  const Json golden = Json::parse(file);
  ASSERT_EQ(golden["cases"].size(), 4u);
  for (const Json& one : golden["cases"])
    for (const Dtype dtype : {f64, f32}) {
      const auto start = one["start"].get<std::vector<double>>();
      const auto size = static_cast<std::int64_t>(start.size());
      const auto tensor = [&](const std::vector<double>& values) {
        const Tensor wide = Tensor::from_values({size}, values);
        if (dtype == f64) return wide.to(device());
        return Tensor::from_values({size}, wide.to_vector<float>()).to(device());
      };
      const Tensor p = tensor(start).detach().set_requires_grad();
      const auto optimizer = optimizer_named(one["name"], p);
      optimizer->keep_average(golden["decay"]);
      for (std::size_t i = 0; i < one["gradients"].size(); ++i) {
        p.set_grad(tensor(one["gradients"][i].get<std::vector<double>>()));
        if (i == golden["clipped_from"].get<std::size_t>()) optimizer->set_max_grad_norm(golden["max_norm"]);
        optimizer->step();
      }
      const double tolerance = dtype == f64 ? 1e-12 : 5e-6;
      EXPECT_TRUE(close(p, one["end"].get<std::vector<double>>(), tolerance, tolerance)) << one["name"] << dtype;
      EXPECT_TRUE(close(optimizer->averages()[0], one["average"].get<std::vector<double>>(), tolerance, tolerance))
          << one["name"] << dtype;
    }
}

}  // namespace
}  // namespace bevel
