// Arithmetic of two tensors with NumPy broadcasting, and of a tensor and a number.
//
// Two tensors must have the same dtype and device; shapes broadcast (sizes aligned at the end, equal or 1). Gradients
// are summed over the broadcast axes. Floating and i32, i64 (div: floating only). All are differentiable any number of
// times. NaN in either operand gives NaN.
#pragma once

#include <bevel/core/autograd.h>
#include <bevel/core/tensor.h>

namespace bevel {

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
// At ties each operand gets half the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

// The number is rounded to the compute type of the dtype; for integers it must be whole and in range.
Tensor add(const Tensor& a, double b);
Tensor mul(const Tensor& a, double b);
Tensor div(const Tensor& a, double b);
Tensor neg(const Tensor& a);

inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return add(a, b);
}
inline Tensor operator-(const Tensor& a, const Tensor& b) {
  return sub(a, b);
}
inline Tensor operator*(const Tensor& a, const Tensor& b) {
  return mul(a, b);
}
inline Tensor operator/(const Tensor& a, const Tensor& b) {
  return div(a, b);
}
inline Tensor operator+(const Tensor& a, double b) {
  return add(a, b);
}
inline Tensor operator+(double a, const Tensor& b) {
  return add(b, a);
}
inline Tensor operator-(const Tensor& a, double b) {
  return add(a, -b);
}
inline Tensor operator-(double a, const Tensor& b) {
  return add(neg(b), a);
}
inline Tensor operator*(const Tensor& a, double b) {
  return mul(a, b);
}
inline Tensor operator*(double a, const Tensor& b) {
  return mul(b, a);
}
inline Tensor operator/(const Tensor& a, double b) {
  return div(a, b);
}
// The same as a scalar tensor divided by b.
Tensor operator/(double a, const Tensor& b);
inline Tensor operator-(const Tensor& a) {
  return neg(a);
}

}  // namespace bevel
