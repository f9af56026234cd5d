// Random tensors, from Philox (core/philox.h) at places reserved from a generator: a seed gives the same bits on CPU
// and CUDA. An operator reserves one counter, of four 32-bit words, for every four elements, or for every two if an
// element is an f64 or i64. Element i takes its words from counter i / 4 or i / 2.
#pragma once

#include <bevel/core/random.h>
#include <bevel/core/tensor.h>

namespace bevel {

// Uniform in [0, 1): multiples of 2^-24 for f32 (rounded to bf16 and f16, where 1 can occur), of 2^-53 for f64.
Tensor rand(const Shape& shape, TensorOptions options = {}, Generator& generator = default_generator());
// Normal with mean 0 and variance 1, by the method of Box and Muller (1958) in double, rounded. Uniform numbers of 32
// bits for f32 and the half types (|x| < 6.8), of 53 bits for f64.
Tensor randn(const Shape& shape, TensorOptions options = {}, Generator& generator = default_generator());
// Uniform whole numbers low <= x < high, always i64: options.dtype is ignored. Error unless low < high.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, TensorOptions options = {},
               Generator& generator = default_generator());
// 1 with probability p, else 0; bool or floating. Error unless 0 <= p <= 1.
Tensor bernoulli(double p, const Shape& shape, TensorOptions options = {}, Generator& generator = default_generator());
// A random order of 0 .. n - 1, i64 [n]; drawn on the CPU.
Tensor randperm(std::int64_t n, Device device = cpu, Generator& generator = default_generator());

}  // namespace bevel
