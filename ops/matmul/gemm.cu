#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/matmul/detail/gemm.h>
#include <bevel/ops/matmul/matmul.h>

namespace bevel::detail {

namespace {

cudaDataType_t cuda_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return CUDA_R_32F;
    case Dtype::f64:
      return CUDA_R_64F;
    case Dtype::bf16:
      return CUDA_R_16BF;
    case Dtype::f16:
      return CUDA_R_16F;
    default:
      fail("gemm: not defined for ", dtype);
  }
}

cublasComputeType_t compute_type(Dtype dtype) {
  if (dtype == f64) return CUBLAS_COMPUTE_64F;
  const bool tf32 = dtype == f32 && matmul_precision() == Precision::tf32;
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

void clear(Cuda backend, const Gemm& p) {
  const auto element = static_cast<std::size_t>(size_of(p.result_dtype));
  for (std::int64_t i = 0; i < p.batch; ++i) {
    char* const c = static_cast<char*>(p.c.data) + static_cast<std::size_t>(i * p.c.batch_stride) * element;
    gpu::check(
        cudaMemset2DAsync(c, static_cast<std::size_t>(p.c.row_stride) * element, 0,
                          static_cast<std::size_t>(p.n) * element, static_cast<std::size_t>(p.m), gpu::stream(backend)),
        "cudaMemset2DAsync");
  }
}

}  // namespace

void gemm(Cuda backend, const Gemm& p) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  if (p.k == 0) {
    if (!p.accumulate) clear(backend, p);
    return;
  }
  cublasHandle_t handle = gpu::cublas(backend.device);
  const double one = 1;
  const double zero = 0;
  const float one_f32 = 1;
  const float zero_f32 = 0;
  const bool is_f64 = p.dtype == f64;
  const void* alpha = is_f64 ? static_cast<const void*>(&one) : &one_f32;
  const void* beta = is_f64 ? static_cast<const void*>(p.accumulate ? &one : &zero)
                            : static_cast<const void*>(p.accumulate ? &one_f32 : &zero_f32);
  const auto flag = [](const GemmOperand& x) { return x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  // cuBLAS counts by columns: what it sees is the transpose of every matrix, so c' = b' a'.
  const cudaDataType_t type = cuda_type(p.dtype);
  const cudaDataType_t result_type = cuda_type(p.result_dtype);
  if (p.batch == 1)
    return gpu::check(cublasGemmEx_64(handle, flag(p.b), flag(p.a), p.n, p.m, p.k, alpha, p.b.data, type,
                                      p.b.row_stride, p.a.data, type, p.a.row_stride, beta, p.c.data, result_type,
                                      p.c.row_stride, compute_type(p.dtype), CUBLAS_GEMM_DEFAULT),
                      "cublasGemmEx");
  gpu::check(cublasGemmStridedBatchedEx_64(handle, flag(p.b), flag(p.a), p.n, p.m, p.k, alpha, p.b.data, type,
                                           p.b.row_stride, p.b.batch_stride, p.a.data, type, p.a.row_stride,
                                           p.a.batch_stride, beta, p.c.data, result_type, p.c.row_stride,
                                           p.c.batch_stride, p.batch, compute_type(p.dtype), CUBLAS_GEMM_DEFAULT),
             "cublasGemmStridedBatchedEx");
}

}  // namespace bevel::detail
