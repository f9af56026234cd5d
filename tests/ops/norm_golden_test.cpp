// Batch and group normalisation against values made by PyTorch; tests/golden/make_norm.py makes them.
#include <nlohmann/json.hpp>

#include "norm_reference.h"

#include <fstream>

namespace bevel {
namespace {

using namespace bevel::testing;
using Json = nlohmann::json;

class NormGoldenTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, NormGoldenTest, ::testing::ValuesIn(build_devices()), device_name);

// Between the NCHW of the file and `layout`.
std::vector<double> picture(const Json& values, const EvoShape& s, Layout layout) {
  std::vector<double> result(values.size());
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t p = 0; p < s.h * s.w; ++p)
      for (std::int64_t c = 0; c < s.c; ++c)
        result[static_cast<std::size_t>(s.index(layout, n, p, c))] =
            values[static_cast<std::size_t>(s.index(Layout::nchw, n, p, c))].get<double>();
  return result;
}

void check_case(const Json& set, const Json& golden, Layout layout, Device device) {
  const std::vector<std::int64_t> sizes = set["shape"];
  const EvoShape s{sizes[0], sizes[2], sizes[3], sizes[1], golden["groups"]};
  const std::string activation = golden["activation"];
  const NormMode mode{golden["norm"] == "batch", golden["training"],
                      activation == "relu"   ? Activation::relu
                      : activation == "silu" ? Activation::silu
                                             : Activation::none,
                      layout};
  SCOPED_TRACE(message(mode.text(), ", ", s));
  const auto parameter = [&](const char* key) {
    return Tensor::from_values(Shape{s.c}, set[key].get<std::vector<double>>());
  };
  const auto pictures = [&](const char* key) {
    return Tensor::from_values(s.shape(layout), picture(set[key], s, layout));
  };
  const NormInputs in{
      pictures("x"),       parameter("weight"), parameter("bias"), parameter("running_mean"), parameter("running_var"),
      pictures("upstream")};
  for (const Dtype dtype : {f64, f32}) {
    const double tolerance = dtype == f64 ? 1e-8 : 1e-5;
    const NormOutputs out = run_norm(mode, s, in, dtype, device);
    EXPECT_TRUE(close(out.y, picture(golden["y"], s, layout), tolerance, tolerance));
    EXPECT_TRUE(close(out.dx, picture(golden["dx"], s, layout), tolerance, tolerance));
    for (const auto& [key, tensor] : {std::pair{"dweight", out.dweight},
                                      {"dbias", out.dbias},
                                      {"running_mean", out.mean},
                                      {"running_var", out.var}}) {
      if (!golden.contains(key)) continue;
      EXPECT_TRUE(close(tensor, golden[key].get<std::vector<double>>(), tolerance, tolerance)) << key;
    }
  }
}

TEST_P(NormGoldenTest, AgreesWithPyTorch) {
  std::ifstream file(BEVEL_TEST_DATA "/golden/norm.json");
  if (!file) GTEST_SKIP() << "tests/golden/norm.json is missing; make_norm.py beside it makes it";
  const Json golden = Json::parse(file);
  int cases = 0;
  for (const Json& set : golden["sets"])
    for (const Json& one : set["cases"])
      for (const Layout layout : both_layouts) {
        check_case(set, one, layout, device());
        ++cases;
      }
  EXPECT_GE(cases, 40);
}

}  // namespace
}  // namespace bevel
