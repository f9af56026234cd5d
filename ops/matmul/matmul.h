// Matrix products.
#pragma once

#include <bevel/core/tensor.h>

namespace bevel {

// Order of the fields: transpose_a, transpose_b.
struct MatmulOptions {
  bool transpose_a = false;  // use a with its last two axes exchanged; nothing is copied
  bool transpose_b = false;
};

// The matrix product of the last two axes, op(a) [..., m, k] times op(b) [..., k, n] giving [..., m, n]. Leading axes
// broadcast by NumPy's rule, and gradients are summed over the broadcast axes. As in NumPy a vector `a` [k] counts as
// [1, k], a vector `b` [k] as [k, 1], and the axis of size 1 is taken out of the result; the transposition flag of a
// vector has no effect.
//
// f32, f64, bf16 and f16, both operands alike; half types are summed in f32 (on the CPU by way of f32 copies). Within
// an Autocast scope (ops/autocast.h) f32 operands are rounded to the scope's type. Any other dtype, sizes that do not
// match, or a scalar operand is an Error. Differentiable any number of times.
Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {});

// How f32 matrix products and convolutions round on CUDA. full: as IEEE single precision. tf32: operands are rounded to
// 10 bits of mantissa, sums stay f32; several times faster on tensor cores. One setting for the process; full at first.
// The CPU always computes in f32.
enum class Precision : std::uint8_t { full, tf32 };
void set_matmul_precision(Precision precision);
Precision matmul_precision();

}  // namespace bevel
