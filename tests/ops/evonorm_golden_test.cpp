// EvoNorm against values made by timm and PyTorch; tests/golden/make_evonorm.py makes them.
#include <nlohmann/json.hpp>

#include "evonorm_reference.h"

#include <fstream>

namespace bevel {
namespace {

using namespace bevel::testing;
using Json = nlohmann::json;

class EvoNormGoldenTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, EvoNormGoldenTest, ::testing::ValuesIn(build_devices()), device_name);

EvoNorm variant_named(const std::string& text) {
  for (const EvoNorm variant : all_variants)
    if (text == name(variant)) return variant;
  fail("no EvoNorm variant ", text);
}

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

void check_case(const Json& golden, Layout layout, Device device) {
  const std::vector<std::int64_t> sizes = golden["shape"];
  const EvoShape s{sizes[0], sizes[2], sizes[3], sizes[1], golden["groups"]};
  const EvoNormOptions o{.variant = variant_named(golden["variant"]),
                         .groups = s.groups,
                         .eps = golden["eps"],
                         .momentum = golden["momentum"],
                         .training = golden["training"],
                         .layout = layout};
  SCOPED_TRACE(message(o.variant, " by ", golden["source"].get<std::string>(), ", ", layout, ", training ", o.training,
                       ", eps ", o.eps, ", ", s));
  const auto parameter = [&](const char* key) {
    return golden.contains(key) ? Tensor::from_values(Shape{s.c}, golden[key].get<std::vector<double>>()) : Tensor();
  };
  const EvoInputs in{Tensor::from_values(s.shape(layout), picture(golden["x"], s, layout)),
                     parameter("gamma"),
                     parameter("beta"),
                     parameter("v"),
                     parameter("running_var"),
                     Tensor::from_values(s.shape(layout), picture(golden["upstream"], s, layout))};
  for (const Dtype dtype : {f64, f32}) {
    // timm takes variances in float32.
    const double tolerance = dtype == f64 ? 2e-6 : 1e-5;
    const EvoOutputs out = run_evonorm(in, o, dtype, device);
    EXPECT_TRUE(close(out.y, picture(golden["y"], s, layout), tolerance, tolerance));
    EXPECT_TRUE(close(out.dx, picture(golden["dx"], s, layout), tolerance, tolerance));
    EXPECT_TRUE(close(out.dgamma, golden["dgamma"].get<std::vector<double>>(), tolerance, tolerance));
    EXPECT_TRUE(close(out.dbeta, golden["dbeta"].get<std::vector<double>>(), tolerance, tolerance));
    for (const auto& [key, tensor] : {std::pair{"dv", out.dv}, std::pair{"running_var_after", out.running_var}}) {
      if (!golden.contains(key)) continue;
      EXPECT_TRUE(close(tensor, golden[key].get<std::vector<double>>(), tolerance, tolerance)) << key;
    }
  }
}

TEST_P(EvoNormGoldenTest, AgreesWithTimmAndPyTorch) {
  std::ifstream file(BEVEL_TEST_DATA "/golden/evonorm.json");
  if (!file) GTEST_SKIP() << "tests/golden/evonorm.json is missing; make_evonorm.py beside it makes it";
  const Json golden = Json::parse(file);
  ASSERT_GE(golden["cases"].size(), 12u);
  for (const Json& one : golden["cases"])
    for (const Layout layout : both_layouts) check_case(one, layout, device());
}

}  // namespace
}  // namespace bevel
