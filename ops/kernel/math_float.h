// Functions of float for the host, as polynomials without branches, so that the compiler vectorises any loop over them.
// The C library's are calls that it cannot look into.
//
// Each states its largest error, found by comparison with double over a dense sweep (tests/ops/kernel/math_test.cpp).
// Infinities, NaN, subnormal arguments and results, overflow and the sign of zero are as in C.
#pragma once

#include <bevel/core/half.h>
#include <bevel/core/hostdevice.h>

#include <bit>
#include <cstdint>
#include <limits>

namespace bevel::math::host {

using bevel::detail::bits_float;
using bevel::detail::float_bits;

inline constexpr float log2_e = 1.44269504f;
inline constexpr float ln2_high = 0.693145751953125f;  // 15 bits: its product with an exponent is exact
inline constexpr float ln2_low = 1.42860682031e-6f;

BEVEL_HD float copy_sign(float magnitude, float sign) {
  return bits_float((float_bits(magnitude) & 0x7fffffffu) | (float_bits(sign) & 0x80000000u));
}

// x = n ln 2 + r with |r| <= ln 2 / 2, and p = e^r - 1 by its Taylor series. Used for -104 <= x <= 89.
struct Reduced {
  std::int32_t n;
  float p;
};
BEVEL_HD Reduced reduce_exp(float x) {
  constexpr float shift = 0x1.8p23f;  // adding it rounds to an integer, which is then in the low bits
  const float shifted = x * log2_e + shift;
  const float n = shifted - shift;
  const float r = (x - n * ln2_high) - n * ln2_low;
  float q = 1.0f / 5040;
  q = q * r + 1.0f / 720;
  q = q * r + 1.0f / 120;
  q = q * r + 1.0f / 24;
  q = q * r + 1.0f / 6;
  q = q * r + 0.5f;
  return {static_cast<std::int32_t>(float_bits(shifted) - float_bits(shift)), q * (r * r) + r};
}

// 2^n for -127 < n < 128.
BEVEL_HD float power_of_two(std::int32_t n) {
  return bits_float((static_cast<std::uint32_t>(n) + 127u) << 23);
}

// x * 2^n for -152 <= n <= 130, rounded once.
BEVEL_HD float scale(float x, std::int32_t n) {
  const std::int32_t half = n >> 1;
  return x * power_of_two(half) * power_of_two(n - half);
}

BEVEL_HD float clamp_exp(float x) {
  const float above = x < -104.0f ? -104.0f : x;
  return above > 89.0f ? 89.0f : above;
}

// Error below 1.1 ulp.
BEVEL_HD float exp(float x) {
  const Reduced reduced = reduce_exp(clamp_exp(x));
  return scale(1.0f + reduced.p, reduced.n);
}

// Error below 2 ulp.
BEVEL_HD float expm1(float x) {
  const Reduced reduced = reduce_exp(clamp_exp(x));
  const float large = scale(1.0f + reduced.p, reduced.n);  // the 1 is far below its last bit
  const std::int32_t n = reduced.n < -126 ? -126 : reduced.n > 127 ? 127 : reduced.n;
  const float power = power_of_two(n);
  const float small = reduced.p * power + (power - 1.0f);
  return x == 0.0f ? x : (reduced.n > 60 ? large : small);
}

// Error below 1 ulp. x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = 2 atanh(f / (2 + f)), arranged so
// that the leading terms f - f^2/2 are added last.
BEVEL_HD float log(float x) {
  const bool subnormal = x < std::numeric_limits<float>::min();
  const float normal = subnormal ? x * 0x1p25f : x;
  constexpr std::uint32_t root_half = 0x3f3504f3u;
  const std::uint32_t bits = float_bits(normal);
  const std::int32_t exponent = static_cast<std::int32_t>(bits - root_half) >> 23;
  const float f = bits_float(bits - (static_cast<std::uint32_t>(exponent) << 23)) - 1.0f;
  const float e = static_cast<float>(subnormal ? exponent - 25 : exponent);
  const float s = f / (2.0f + f);
  const float z = s * s;
  const float r = z * (2.0f / 3 + z * (2.0f / 5 + z * (2.0f / 7 + z * (2.0f / 9))));
  const float half_square = 0.5f * f * f;
  const float low = s * (half_square + r) + e * ln2_low;
  const float finite = e * ln2_high + (f - (half_square - low));
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float positive = x < infinity ? finite : x;  // also NaN
  return x > 0.0f ? positive : (x == 0.0f ? -infinity : std::numeric_limits<float>::quiet_NaN());
}

// Error below 2 ulp. log(u) with u = 1 + x rounded, plus what the rounding lost.
BEVEL_HD float log1p(float x) {
  const float u = 1.0f + x;
  const float lost = (x - (u - 1.0f)) / u;
  const float y = log(u);
  const bool correct = u > 0.0f && u < 0x1p25f;
  return x == 0.0f ? x : (correct ? y + lost : y);
}

// Error below 3 ulp. By t = e^(-2|x|) - 1: tanh |x| = -t / (2 + t).
BEVEL_HD float tanh(float x) {
  const float t = expm1(-2.0f * bits_float(float_bits(x) & 0x7fffffffu));
  return copy_sign(t / (2.0f + t), x);
}

// Error below 2 ulp. Below 0.9 an odd polynomial; above, 1 - e^p(|x|) with p a fit of log erfc; 1 from 3.95 on.
BEVEL_HD float erf(float x) {
  const float a = bits_float(float_bits(x) & 0x7fffffffu);
  const float z = a * a;
  float inner = 8.529401323e-5f;
  inner = inner * z - 8.179632181e-4f;
  inner = inner * z + 5.204226694e-3f;
  inner = inner * z - 2.686066479e-2f;
  inner = inner * z + 1.128371805e-1f;
  inner = inner * z - 3.761263519e-1f;
  inner = inner * z + 1.28379167e-1f;  // 2 / sqrt(pi) - 1: the 1 is added without a rounding of its own
  inner = inner * a + a;
  const float c = a > 3.95f ? 3.95f : a;
  float outer = 1.6589021e-6f;
  outer = outer * c - 4.645523621e-5f;
  outer = outer * c + 5.99859686e-4f;
  outer = outer * c - 4.772434593e-3f;
  outer = outer * c + 2.645315803e-2f;
  outer = outer * c - 1.10128096e-1f;
  outer = outer * c - 6.317844659e-1f;
  outer = outer * c - 1.130251935f;
  outer = outer * c + 3.231856272e-4f;
  const float tail = 1.0f - exp(outer);
  const float y = a < 0.9f ? inner : (a >= 3.95f ? 1.0f : tail);
  return x == x ? copy_sign(y, x) : x;
}

}  // namespace bevel::math::host
