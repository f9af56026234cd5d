#include <bevel/core/half.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bevel {
namespace {

// The value of a half-precision pattern, from the definition of the format.
double value_of_pattern(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
}

template <class Half>
void check_all_patterns(int exponent_bits, int mantissa_bits) {
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const double expected = value_of_pattern(bits, exponent_bits, mantissa_bits);
    const float value = half;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(Half(value)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(Half(value).bits, bits);
  }
}

// Between two neighbouring patterns: below the middle rounds down, above it up, the middle itself to the even one.
template <class Half>
void check_rounding() {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    Half low;
    Half high;
    low.bits = bits;
    high.bits = static_cast<std::uint16_t>(bits + 1);
    const float a = low;
    const float b = high;
    if (!std::isfinite(b)) break;
    const float middle = static_cast<float>((static_cast<double>(a) + static_cast<double>(b)) / 2);
    ASSERT_EQ(Half(middle).bits, bits % 2 == 0 ? low.bits : high.bits) << bits;
    ASSERT_EQ(Half(std::nextafterf(middle, a)).bits, low.bits) << bits;
    ASSERT_EQ(Half(std::nextafterf(middle, b)).bits, high.bits) << bits;
  }
}

TEST(Bfloat16, EveryPatternConvertsBothWays) {
  check_all_patterns<bfloat16>(8, 7);
}
TEST(Float16, EveryPatternConvertsBothWays) {
  check_all_patterns<float16>(5, 10);
}
TEST(Bfloat16, RoundsToNearestEven) {
  check_rounding<bfloat16>();
}
TEST(Float16, RoundsToNearestEven) {
  check_rounding<float16>();
}

TEST(Float16, TooLargeBecomesInfinity) {
  EXPECT_EQ(float16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(float16(-1e30f).bits, 0xfc00);
}

}  // namespace
}  // namespace bevel
