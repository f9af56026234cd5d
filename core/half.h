// bfloat16 and float16: storage types. Arithmetic is done in float; the conversions round to nearest, ties to even.
#pragma once

#include <bevel/core/hostdevice.h>

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#endif

namespace bevel {

namespace detail {

BEVEL_HD std::uint32_t float_bits(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  return std::bit_cast<std::uint32_t>(value);
#endif
}

BEVEL_HD float bits_float(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

BEVEL_HD std::uint16_t float_to_bfloat16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint16_t result;  // one instruction; a NaN becomes the canonical one
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
#else
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
#endif
}

BEVEL_HD std::uint16_t float_to_float16(float value) {
#if defined(__CUDA_ARCH__)
  return __half_as_ushort(__float2half_rn(value));
#else
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // normal numbers: rebias the exponent, round the 13 lost bits
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  } else {  // subnormal: adding 0.5 lets the float unit round to multiples of 2^-24
    half = float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u;
  }
  return static_cast<std::uint16_t>(sign | half);
#endif
}

BEVEL_HD float float16_to_float(std::uint16_t half) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(half));
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_float(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  // 2^112 moves the exponent from float16's bias to float's, subnormal numbers included.
  return bits_float(sign | float_bits(bits_float(magnitude << 13) * 0x1p112f));
#endif
}

}  // namespace detail

struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  BEVEL_HD bfloat16(float value) : bits(detail::float_to_bfloat16(value)) {}
  BEVEL_HD operator float() const { return detail::bits_float(static_cast<std::uint32_t>(bits) << 16); }
};

struct float16 {
  std::uint16_t bits;

  float16() = default;
  BEVEL_HD float16(float value) : bits(detail::float_to_float16(value)) {}
  BEVEL_HD operator float() const { return detail::float16_to_float(bits); }
};

}  // namespace bevel
