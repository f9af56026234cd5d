// The matrix product under matmul, linear and convolution: row-major, with flags instead of transposed copies.
#pragma once

#include <bevel/core/device.h>
#include <bevel/core/dtype.h>

#include <cstdint>

namespace bevel::detail {

// A stack of row-major matrices as it lies in memory. Strides are in elements; a batch stride of 0 uses one matrix for
// the whole batch. `transposed`: the matrix lies in memory as the transpose of the operand.
struct GemmOperand {
  void* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t batch_stride = 0;
  bool transposed = false;
};

// c[i] = a[i] b[i], or c[i] += a[i] b[i], for every i of the batch: a is [m, k], b is [k, n], c is [m, n]. Half types
// are multiplied exactly and summed in f32. `result_dtype` is `dtype`, or f32 where `dtype` is a half type. Products
// with m, n or the batch 0 do nothing; k = 0 gives zeros.
struct Gemm {
  Dtype dtype = f32;
  Dtype result_dtype = f32;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  GemmOperand a{};
  GemmOperand b{};
  GemmOperand c{};  // never transposed
  std::int64_t batch = 1;
  bool accumulate = false;
};

// CPU: Eigen on tiles whose bounds depend on the sizes alone. Half types go through f32 copies.
void gemm(Cpu, const Gemm& problem);
// CUDA: cuBLASLt on the current stream. f32 as matmul_precision() says.
void gemm(Cuda backend, const Gemm& problem);

// What is done to the product before it is written, for a batch of 1 with k > 0.
struct Epilogue {
  const void* bias = nullptr;  // [n] of c's dtype: added to every row of c
  bool relu = false;           // then max(c, 0); a NaN stays one
  void* sums_of_a = nullptr;   // [m] of c's dtype, written: the sums of the rows of a (a gradient of a bias)
};

// The product with its epilogue in one kernel. False, with nothing done, where cuBLASLt has none for it.
bool gemm(Cuda backend, const Gemm& problem, const Epilogue& epilogue);

}  // namespace bevel::detail
