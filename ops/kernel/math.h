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
#endif

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
BEVEL_HD float atan(float x) {
  return atanf(x);
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
  return (x >= 0 ? T(1) : e) / (T(1) + e);
}

}  // namespace bevel::math
