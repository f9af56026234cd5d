// The float functions of the host against double, in units of the last place.
#include <bevel/ops/kernel/math.h>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace bevel {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

struct MathCase {
  const char* name;
  float (*function)(float);
  double (*reference)(double);
  double ulps;
};

const MathCase math_cases[] = {
    {"exp", [](float x) { return math::exp(x); }, [](double x) { return std::exp(x); }, 1.1},
    {"expm1", [](float x) { return math::expm1(x); }, [](double x) { return std::expm1(x); }, 2},
    {"log", [](float x) { return math::log(x); }, [](double x) { return std::log(x); }, 1},
    {"log1p", [](float x) { return math::log1p(x); }, [](double x) { return std::log1p(x); }, 2},
    {"tanh", [](float x) { return math::tanh(x); }, [](double x) { return std::tanh(x); }, 3},
    {"erf", [](float x) { return math::erf(x); }, [](double x) { return std::erf(x); }, 2},
    {"atan", [](float x) { return math::atan(x); }, [](double x) { return std::atan(x); }, 2},
    {"sigmoid", [](float x) { return math::sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }, 3},
};

// The distance from `value` to the exact `reference` in units of the last place of the float nearest to it.
double ulps(float value, double reference) {
  const float nearest = static_cast<float>(reference);
  if (std::isnan(reference)) return std::isnan(value) ? 0 : infinity;
  if (value == nearest) return std::signbit(value) == std::signbit(nearest) ? 0 : infinity;
  if (!std::isfinite(nearest) || !std::isfinite(value)) {
    // One may already have overflowed where the other is the largest float.
    const double limit = std::numeric_limits<float>::max();
    return std::abs(reference) > limit * (1 - 1e-6) && std::abs(value) > limit * (1 - 1e-6) ? 1 : infinity;
  }
  const float magnitude = std::abs(nearest);
  const float unit = std::max(std::nextafter(magnitude, infinity) - magnitude, 0x1p-149f);
  return std::abs(value - reference) / unit;
}

TEST(Math, LogOfRatioAndAtanOfFraction) {
  for (std::uint32_t bits = 0; bits <= 0x3f800000u; bits += 997u) {
    const float x = std::bit_cast<float>(bits);  // 0 to 1
    const double s = static_cast<double>(x) / 3;
    const auto third = static_cast<float>(s);
    EXPECT_LT(ulps(math::log_of_ratio(third), 2 * std::atanh(static_cast<double>(third))), 1.1) << third;
    EXPECT_NEAR(math::log_of_ratio(s), 2 * std::atanh(s), 1e-15 * s);
    EXPECT_LT(ulps(math::atan_of_fraction(x), std::atan(static_cast<double>(x))), 2) << x;
    EXPECT_EQ(math::atan_of_fraction(-x), -math::atan_of_fraction(x));
  }
}

TEST(Math, FloatFunctionsAgreeWithDouble) {
  for (const MathCase& c : math_cases) {
    double worst = 0;
    float at = 0;
    const auto check = [&](float x) {
      const double error = ulps(c.function(x), c.reference(x));
      if (error > worst) {
        worst = error;
        at = x;
      }
    };
    for (std::uint32_t bits = 0; bits < 0xffffffffu - 3001u; bits += 3001u) check(std::bit_cast<float>(bits));
    for (float x = -110; x < 110; x += 1.0f / 2053) check(x);
    for (float x = -2; x < 2; x += 1.0f / 100003) check(x);
    RecordProperty(c.name, std::to_string(worst));
    EXPECT_LE(worst, c.ulps) << c.name << " at " << at << ": " << c.function(at) << ", expected " << c.reference(at);
  }
}

TEST(Math, FloatFunctionsAtTheEdges) {
  for (const MathCase& c : math_cases)
    for (const float x : {0.0f, -0.0f, infinity, -infinity, nan, -1.0f, std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::lowest(), std::numeric_limits<float>::min(), 1e-40f, -1e-40f,
                          1e-45f, 88.72283f, 88.72285f, -87.4f, -103.9f, -104.1f, 1000.0f, -1000.0f})
      EXPECT_LE(ulps(c.function(x), c.reference(x)), c.ulps) << c.name << " at " << x << ": " << c.function(x);
}

}  // namespace
}  // namespace bevel
