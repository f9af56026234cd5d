// Matrix products through cuBLASLt: a plan for each problem, kept to the end of the process.
#include <bevel/core/cuda/runtime.h>
#include <bevel/core/memory.h>
#include <bevel/ops/matmul/detail/gemm.h>
#include <bevel/ops/matmul/matmul.h>

#include <cublasLt.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace bevel::detail {

namespace {

constexpr std::size_t most_workspace = std::size_t{32} << 20;

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

bool uses_tf32(Dtype dtype) {
  return dtype == f32 && matmul_precision() == Precision::tf32;
}

cublasComputeType_t compute_type(Dtype dtype) {
  if (dtype == f64) return CUBLAS_COMPUTE_64F;
  return uses_tf32(dtype) ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// The largest power of two up to 16 that divides the address.
std::uint32_t alignment(const void* address) {
  const std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(address) | 16;
  return static_cast<std::uint32_t>(bits & ~(bits - 1));
}

using Key = std::array<std::int64_t, 24>;

Key key_of(Cuda backend, const Gemm& p, const Epilogue& e) {
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  return {backend.device.index,
          number(p.dtype),
          number(p.result_dtype),
          p.m,
          p.n,
          p.k,
          p.a.row_stride,
          p.b.row_stride,
          p.c.row_stride,
          p.a.transposed,
          p.b.transposed,
          p.a.batch_stride,
          p.b.batch_stride,
          p.c.batch_stride,
          p.batch,
          p.accumulate,
          uses_tf32(p.dtype),
          e.bias != nullptr,
          e.relu,
          e.sums_of_a != nullptr,
          alignment(p.a.data),
          alignment(p.b.data),
          alignment(p.c.data),
          0};
}

// A product in cuBLAS's eyes. It counts by columns: what it sees is the transpose of every matrix, so c' = b' a'.
struct Plan {
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t a{}, b{}, c{};  // in cuBLAS's order: its a is our b
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
};

template <class T>
void set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name, const T& value) {
  gpu::check(cublasLtMatmulDescSetAttribute(d, name, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(cublasLtMatrixLayout_t d, cublasLtMatrixLayoutAttribute_t name, const T& value) {
  gpu::check(cublasLtMatrixLayoutSetAttribute(d, name, &value, sizeof value), "cublasLtMatrixLayoutSetAttribute");
}
template <class T>
void set(cublasLtMatmulPreference_t d, cublasLtMatmulPreferenceAttributes_t name, const T& value) {
  gpu::check(cublasLtMatmulPreferenceSetAttribute(d, name, &value, sizeof value),
             "cublasLtMatmulPreferenceSetAttribute");
}

// `rows` and `columns` of the operand, row-major.
void lay_out(cublasLtMatrixLayoutOpaque_t& layout, Dtype dtype, const GemmOperand& x, std::int64_t rows,
             std::int64_t columns, std::int64_t batch) {
  if (x.transposed) std::swap(rows, columns);
  gpu::check(cublasLtMatrixLayoutInit(&layout, cuda_type(dtype), static_cast<std::uint64_t>(columns),
                                      static_cast<std::uint64_t>(rows), x.row_stride),
             "cublasLtMatrixLayoutInit");
  if (batch == 1) return;
  set(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
  set(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, x.batch_stride);
}

cublasLtEpilogue_t epilogue_of(const Epilogue& e) {
  if (e.sums_of_a) return CUBLASLT_EPILOGUE_BGRADB;  // our a is the b of cuBLAS
  if (e.relu) return e.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  return e.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

void set_vectors(Plan& plan, const Epilogue& e) {
  const void* const vector = e.sums_of_a ? e.sums_of_a : e.bias;
  if (vector) set(&plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
}

// The best of cuBLASLt's proposals that sums in f32 throughout and gives the same bits again. False without one.
bool choose_algorithm(cublasLtHandle_t handle, const Gemm& p, Plan& plan) {
  cublasLtMatmulPreferenceOpaque_t preference{};
  gpu::check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
  // Parts of a long sum go through the workspace in the type they are computed in.
  set(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p.b.data));
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p.a.data));
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(p.c.data));
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(p.c.data));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, &plan.operation, &plan.a, &plan.b, &plan.c,
                                                               &plan.c, &preference, 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || count == 0) return false;
  gpu::check(status, "cublasLtMatmulAlgoGetHeuristic");
  plan.algorithm = found.algo;
  plan.workspace = found.workspaceSize;
  return true;
}

std::optional<Plan> make_plan(cublasLtHandle_t handle, const Gemm& p, const Epilogue& e) {
  Plan plan;
  gpu::check(cublasLtMatmulDescInit(&plan.operation, compute_type(p.dtype), p.dtype == f64 ? CUDA_R_64F : CUDA_R_32F),
             "cublasLtMatmulDescInit");
  const auto flag = [](const GemmOperand& x) { return x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(&plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, flag(p.b));
  set(&plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, flag(p.a));
  set(&plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(e));
  if (e.bias || e.sums_of_a)
    set(&plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(cuda_type(p.result_dtype)));
  set_vectors(plan, e);
  lay_out(plan.a, p.dtype, p.b, p.k, p.n, p.batch);
  lay_out(plan.b, p.dtype, p.a, p.m, p.k, p.batch);
  lay_out(plan.c, p.result_dtype, p.c, p.m, p.n, p.batch);
  if (!choose_algorithm(handle, p, plan)) return {};
  return plan;
}

// A handle of a device serves all threads and streams, since workspaces are given by call.
cublasLtHandle_t handle_of(Device device) {
  static std::mutex mutex;
  static auto& handles = *new std::map<int, cublasLtHandle_t>;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[device.index];
  if (!handle) gpu::check(cublasLtCreate(&handle), "cublasLtCreate");
  return handle;
}

std::optional<Plan> plan_for(Cuda backend, cublasLtHandle_t handle, const Gemm& p, const Epilogue& e) {
  static std::mutex mutex;
  static auto& plans = *new std::map<Key, std::optional<Plan>>;
  const Key key = key_of(backend, p, e);
  const std::lock_guard lock(mutex);
  const auto found = plans.find(key);
  if (found != plans.end()) return found->second;
  return plans.emplace(key, make_plan(handle, p, e)).first->second;
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

bool multiply(Cuda backend, const Gemm& p, const Epilogue& e) {
  const gpu::DeviceGuard guard(backend.device);
  const cublasLtHandle_t handle = handle_of(backend.device);
  std::optional<Plan> plan = plan_for(backend, handle, p, e);
  if (!plan) return false;
  set_vectors(*plan, e);
  const auto workspace = Buffer::allocate(plan->workspace, backend.device);
  const double number = p.accumulate ? 1 : 0;
  const float number_f32 = p.accumulate ? 1 : 0;
  const double one = 1;
  const float one_f32 = 1;
  const bool is_f64 = p.dtype == f64;
  const void* alpha = is_f64 ? static_cast<const void*>(&one) : &one_f32;
  const void* beta = is_f64 ? static_cast<const void*>(&number) : &number_f32;
  gpu::check(
      cublasLtMatmul(handle, &plan->operation, alpha, p.b.data, &plan->a, p.a.data, &plan->b, beta, p.c.data, &plan->c,
                     p.c.data, &plan->c, &plan->algorithm, workspace->data(), plan->workspace, gpu::stream(backend)),
      "cublasLtMatmul");
  return true;
}

// More matrices than cuBLASLt counts go in several calls.
constexpr std::int64_t most_matrices = 65535;

void* advanced(const GemmOperand& x, Dtype dtype, std::int64_t matrices) {
  return static_cast<char*>(x.data) + matrices * x.batch_stride * size_of(dtype);
}

}  // namespace

void gemm(Cuda backend, const Gemm& p) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  if (p.k == 0) {
    const gpu::DeviceGuard guard(backend.device);
    if (!p.accumulate) clear(backend, p);
    return;
  }
  for (std::int64_t first = 0; first < p.batch; first += most_matrices) {
    Gemm part = p;
    part.batch = std::min(most_matrices, p.batch - first);
    part.a.data = advanced(p.a, p.dtype, first);
    part.b.data = advanced(p.b, p.dtype, first);
    part.c.data = advanced(p.c, p.result_dtype, first);
    require(multiply(backend, part, {}), "gemm: cuBLASLt has no way to multiply [", p.m, ", ", p.k, "] by [", p.k, ", ",
            p.n, "] in ", p.dtype);
  }
}

bool gemm(Cuda backend, const Gemm& p, const Epilogue& epilogue) {
  if (p.m == 0 || p.n == 0 || p.k == 0) return false;
  return multiply(backend, p, epilogue);
}

}  // namespace bevel::detail
