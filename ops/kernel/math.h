// Scalar functions under Number: the same names for float and double, host and device.
//
// On the host the float functions are our own polynomials where the C library's would keep a loop from being
// vectorised (math_float.h); each says its error. On the device arithmetic is spelt with the _rn intrinsics, which nvcc
// never contracts.
#pragma once

#include <bevel/core/hostdevice.h>
#include <bevel/ops/kernel/math_float.h>

#include <cmath>

namespace bevel::math {

#if defined(__CUDA_ARCH__)
BEVEL_HD float add(float a, float b) {
  return __fadd_rn(a, b);
}
BEVEL_HD float subtract(float a, float b) {
  return __fsub_rn(a, b);
}
BEVEL_HD float multiply(float a, float b) {
  return __fmul_rn(a, b);
}
BEVEL_HD float divide(float a, float b) {
  return __fdiv_rn(a, b);
}
BEVEL_HD double add(double a, double b) {
  return __dadd_rn(a, b);
}
BEVEL_HD double subtract(double a, double b) {
  return __dsub_rn(a, b);
}
BEVEL_HD double multiply(double a, double b) {
  return __dmul_rn(a, b);
}
BEVEL_HD double divide(double a, double b) {
  return __ddiv_rn(a, b);
}
BEVEL_HD float multiply_add(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
BEVEL_HD double multiply_add(double a, double b, double c) {
  return __fma_rn(a, b, c);
}
#else
template <class T>
BEVEL_HD T add(T a, T b) {
  return a + b;
}
template <class T>
BEVEL_HD T subtract(T a, T b) {
  return a - b;
}
template <class T>
BEVEL_HD T multiply(T a, T b) {
  return a * b;
}
template <class T>
BEVEL_HD T divide(T a, T b) {
  return a / b;
}
// a b + c; with one rounding on the device only, since not every CPU has an instruction for it.
template <class T>
BEVEL_HD T multiply_add(T a, T b, T c) {
  return a * b + c;
}
#endif

// NaN in either argument gives NaN.
template <class T>
BEVEL_HD T max(T a, T b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) == 4) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
  }
#endif
  return a >= b || a != a ? a : b;
}
template <class T>
BEVEL_HD T min(T a, T b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) == 4) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
  }
#endif
  return a <= b || a != a ? a : b;
}

// 1 where x > 0, else 0, NaN included.
template <class T>
BEVEL_HD T is_positive(T x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 4) {
    float result;  // 0 inf and NaN saturate to 0
    asm("mul.rn.sat.f32 %0, %1, 0f7F800000;" : "=f"(result) : "f"(x));
    return result;
  }
#endif
  return x > 0 ? T(1) : T(0);
}

// 0, 1/2, 1 where x is below, at, above 0. On the device something between for subnormal floats.
template <class T>
BEVEL_HD T unit_step(T x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 4) {
    float result;
    asm("fma.rn.sat.f32 %0, %1, 0f7F000000, 0f3F000000;" : "=f"(result) : "f"(x));
    return result;
  }
#endif
  return x > 0 ? T(1) : x < 0 ? T(0) : T(0.5);
}

// 1 / x within one unit in the last place; on the device what is not a normal float, x or the result, counts as 0.
template <class T>
BEVEL_HD T reciprocal(T x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 4) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
  }
#endif
  return T(1) / x;
}

// a / b, given r = reciprocal(b): within one unit in the last place, exact where a / b is a whole number; on the device
// a few instructions instead of a division. What it computes on the way must be in the range of T.
template <class T>
BEVEL_HD T quotient(T a, T b, [[maybe_unused]] T r) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 4) {
    const T q = multiply(a, r);
    return multiply_add(multiply_add(-q, b, a), r, q);
  }
#endif
  return divide(a, b);
}

BEVEL_HD float abs(float x) {
  return fabsf(x);
}
BEVEL_HD double abs(double x) {
  return fabs(x);
}
BEVEL_HD float sqrt(float x) {
  return sqrtf(x);
}
BEVEL_HD double sqrt(double x) {
  return ::sqrt(x);
}
BEVEL_HD float exp(float x) {
#if defined(__CUDA_ARCH__)
  return expf(x);
#else
  return host::exp(x);
#endif
}
BEVEL_HD double exp(double x) {
  return ::exp(x);
}
BEVEL_HD float expm1(float x) {
#if defined(__CUDA_ARCH__)
  return expm1f(x);
#else
  return host::expm1(x);
#endif
}
BEVEL_HD double expm1(double x) {
  return ::expm1(x);
}
BEVEL_HD float log(float x) {
#if defined(__CUDA_ARCH__)
  return logf(x);
#else
  return host::log(x);
#endif
}
BEVEL_HD double log(double x) {
  return ::log(x);
}
BEVEL_HD float log1p(float x) {
#if defined(__CUDA_ARCH__)
  return log1pf(x);
#else
  return host::log1p(x);
#endif
}
BEVEL_HD double log1p(double x) {
  return ::log1p(x);
}
BEVEL_HD float sin(float x) {
  return sinf(x);
}
BEVEL_HD double sin(double x) {
  return ::sin(x);
}
BEVEL_HD float cos(float x) {
  return cosf(x);
}
BEVEL_HD double cos(double x) {
  return ::cos(x);
}
// log((1 + s) / (1 - s)) for |s| <= 1/3, by its series: for log1p(x) with 0 <= x <= 1, where s = x / (2 + x). Error of
// float below 1 ulp.
BEVEL_HD float log_of_ratio(float s) {
  const float z = multiply(s, s);
  const float twice = s + s;
  float q = 1.0f / 15;
  q = multiply_add(q, z, 1.0f / 13);
  q = multiply_add(q, z, 1.0f / 11);
  q = multiply_add(q, z, 1.0f / 9);
  q = multiply_add(q, z, 1.0f / 7);
  q = multiply_add(q, z, 1.0f / 5);
  q = multiply_add(q, z, 1.0f / 3);
  return multiply_add(multiply(twice, z), q, twice);
}
BEVEL_HD double log_of_ratio(double s) {
  return ::log1p(2 * s / (1 - s));
}
// Error below 2 ulp. The polynomial interpolates (atan(x) / x - 1) / x².
BEVEL_HD float atan_of_fraction(float x) {
  const float z = multiply(x, x);
  float q = 1.48869189e-3f;
  q = multiply_add(q, z, -9.14462935e-3f);
  q = multiply_add(q, z, 2.63049994e-2f);
  q = multiply_add(q, z, -4.89605144e-2f);
  q = multiply_add(q, z, 7.03191385e-2f);
  q = multiply_add(q, z, -8.9318268e-2f);
  q = multiply_add(q, z, 1.10882618e-1f);
  q = multiply_add(q, z, -1.42840043e-1f);
  q = multiply_add(q, z, 1.99999496e-1f);
  q = multiply_add(q, z, -3.33333343e-1f);
  return multiply_add(multiply(q, z), x, x);
}
// atan for |x| <= 1.
BEVEL_HD double atan_of_fraction(double x) {
  return ::atan(x);
}
BEVEL_HD float atan(float x) {
#if defined(__CUDA_ARCH__)
  return atanf(x);
#else
  const float a = abs(x);
  const float angle = atan_of_fraction(a > 1.0f ? 1.0f / a : a);
  constexpr float half_pi = 1.57079633f;
  constexpr float half_pi_low = -4.37113883e-8f;
  return host::copy_sign(a > 1.0f ? (half_pi_low - angle) + half_pi : angle, x);
#endif
}
BEVEL_HD double atan(double x) {
  return ::atan(x);
}
BEVEL_HD float tanh(float x) {
#if defined(__CUDA_ARCH__)
  return tanhf(x);
#else
  return host::tanh(x);
#endif
}
BEVEL_HD double tanh(double x) {
  return ::tanh(x);
}
BEVEL_HD float erf(float x) {
#if defined(__CUDA_ARCH__)
  return erff(x);
#else
  return host::erf(x);
#endif
}
BEVEL_HD double erf(double x) {
  return ::erf(x);
}
BEVEL_HD float pow(float x, float exponent) {
  return powf(x, exponent);
}
BEVEL_HD double pow(double x, double exponent) {
  return ::pow(x, exponent);
}

// Both forms are exact where they are used: exp of a non-positive number never overflows.
template <class T>
BEVEL_HD T sigmoid(T x) {
  const T e = exp(-abs(x));
  return quotient(x >= 0 ? T(1) : e, T(1) + e, reciprocal(T(1) + e));
}

}  // namespace bevel::math
