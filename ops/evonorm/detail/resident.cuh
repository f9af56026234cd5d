// What the one-read kernels of both layouts share: cluster exchange, and the arithmetic of the gate.
#pragma once

#include <bevel/ops/evonorm/detail/residency.h>
#include <bevel/ops/evonorm/detail/device_sums.cuh>
#include <bevel/ops/evonorm/detail/held.cuh>

namespace bevel::evo {

// Statistics and gradients are float here: the one-read kernels take f32 and the half types.
struct ResidentForward {
  const void* x;
  void* y;
  const float* gamma;
  const float* beta;
  const float* v;  // null: 1
  float* slice;    // [3, N * G]: mean in two parts, 1 / deviation
};

struct ResidentBackward {
  const void* x;
  const void* dy;
  void* dx;  // null where it is not wanted
  const float* gamma;
  const float* v;  // null: 1
  const float* slice;
  float* sums;  // [3, N * runs, C]: shares in dgamma, dbeta, dv; runs is 1 in NCHW, the cluster's blocks in NHWC
};

// Sizes as the kernels want them.
struct ResidentSizes {
  std::int64_t samples, pixels, channels;
  int width, width_shift, lanes, maps, cluster;  // width_shift: its logarithm, -1 where it is no power of two
  float eps;
  bool about_zero;

  // The group of a channel; a division would cost as much as several elements.
  __device__ int group_of(int channel) const { return width_shift >= 0 ? channel >> width_shift : channel / width; }
};

// Whether the code that this device runs was compiled for sm_90 or later.
bool resident_kernels_know_clusters();

// Launchers; each is defined with its kernels.
void resident_forward_nchw(const raw::OnStream& where, Dtype, const Residency& r, const ResidentSizes&,
                           const ResidentForward&);
void resident_backward_nchw(const raw::OnStream& where, Dtype, const Residency& r, const ResidentSizes&,
                            const ResidentBackward&);
void resident_forward_nhwc(const raw::OnStream& where, Dtype, const Residency& r, const ResidentSizes&,
                           const ResidentForward&);
void resident_backward_nhwc(const raw::OnStream& where, Dtype, const Residency& r, const ResidentSizes&,
                            const ResidentBackward&);

// --- clusters: compiled for sm_90 and later, launched nowhere else ---

__device__ inline unsigned cluster_rank() {
#if __CUDA_ARCH__ >= 900
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return 0;
#endif
}

// What this thread wrote to shared memory before arriving is seen by the cluster's threads after their wait.
__device__ inline void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ inline void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// *local of the block `rank` of the cluster.
__device__ inline float load_from_rank(const float* local, unsigned rank) {
#if __CUDA_ARCH__ >= 900
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(local));
  float value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(address), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
#else
  return *local;
#endif
}

// --- reductions ---

// Merges over the lanes of each run of `end` whose numbers agree modulo `lowest` (powers of two); the first `lowest`
// lanes of each run have the results.
template <class Merge, int K>
__device__ inline void lanes_merge(float (&value)[K], int lowest, int end) {
  for (int step = end / 2; step >= lowest; step /= 2) {
    float other[K];
#pragma unroll
    for (int k = 0; k < K; ++k) other[k] = __shfl_down_sync(~0u, value[k], static_cast<unsigned>(step));
    Merge::merge(value, other);
  }
}

// Merges shared[0..count) of K rows `pitch` apart over one warp, in a fixed order; lane 0 has the result.
template <class Merge, int K>
__device__ inline void slots_merge(const float* slots, int pitch, int count, float (&value)[K]) {
  for (int j = static_cast<int>(threadIdx.x) % 32; j < count; j += 32) {
    float other[K];
#pragma unroll
    for (int k = 0; k < K; ++k) other[k] = slots[k * pitch + j];
    Merge::merge(value, other);
  }
  warp_merge<Merge>(value);
}

// Merges local[0..K) (rows `pitch` apart) of the blocks of a cluster, in the order of their ranks.
template <class Merge, int K>
__device__ inline void ranks_merge(const float* local, int pitch, int cluster, float (&value)[K]) {
  if (cluster == 1) {
#pragma unroll
    for (int k = 0; k < K; ++k) value[k] = local[k * pitch];
    return;
  }
  float other[largest_cluster][K] = {};  // all loads are under way before the first is used
#pragma unroll
  for (int rank = 0; rank < largest_cluster; ++rank)
    if (rank < cluster)
#pragma unroll
      for (int k = 0; k < K; ++k) other[rank][k] = load_from_rank(local + k * pitch, static_cast<unsigned>(rank));
#pragma unroll
  for (int rank = 0; rank < largest_cluster; ++rank)
    if (rank < cluster) Merge::merge(value, other[rank]);
}

// Count, mean and sum of squared deviations of x - pivot over this thread's packs: two passes over registers.
// valid(i) says whether the thread has pack i.
template <int P, int V, class T, class Valid>
__device__ inline void thread_moments(const Held<T, P> (&x)[V], float pivot, const Valid& valid, float (&value)[3]) {
  float count = 0, sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (valid(i)) {
      count += static_cast<float>(P);
#pragma unroll
      for (int p = 0; p < P; ++p) sum += x[i][p] - pivot;
    }
  const float mean = count > 0 ? sum / count : 0.0f;
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (valid(i)) {
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const float difference = x[i][p] - pivot - mean;
        squares += difference * difference;
      }
    }
  value[0] = count;
  value[1] = mean;
  value[2] = squares;
}

// 1 / sqrt(variance + eps), or about 0 of the mean square, from merged moments of x - pivot.
__device__ inline float reciprocal_deviation(const ResidentSizes& s, float pivot, const float (&moments)[3]) {
  const float mean = pivot + moments[1];
  return 1.0f / sqrtf(moments[2] / moments[0] + (s.about_zero ? mean * mean : 0.0f) + s.eps);
}

// The gradient of the gate alone, dy * d(x q)/dx; adds the terms of GateReduce to `sum`.
__device__ inline float gate_slope(float v, float x, float dy, float (&sum)[3]) {
  const float z = v * x;
  const float q = gate_sigmoid(z);
  const float rest = 1.0f - q;
  const float h = dy * (x * q);
  sum[0] += h;
  sum[1] += dy;
  sum[2] += h * (x * rest);
  return dy * (q * (1.0f + z * rest));
}

// --- launching ---

template <class... Parameters, class... Arguments>
void launch_resident(const raw::OnStream& where, const Residency& r, std::int64_t blocks, const char* name,
                     void (*kernel)(Parameters...), const Arguments&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(r.threads));
  config.stream = static_cast<cudaStream_t>(where.stream);
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(r.cluster);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  config.attrs = &cluster;
  config.numAttrs = r.cluster > 1 ? 1 : 0;
  gpu::check(cudaLaunchKernelEx(&config, kernel, arguments...), name);
}

// Calls f<T>() for the dtypes of the one-read kernels.
template <class F>
void visit_resident(Dtype dtype, const F& f) {
  if (dtype == f32) return f.template operator()<float>();
  if (dtype == bf16) return f.template operator()<bfloat16>();
  if (dtype == f16) return f.template operator()<float16>();
  fail("evonorm: no one-read kernel for ", dtype);
}

}  // namespace bevel::evo
