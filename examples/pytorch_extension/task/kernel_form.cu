// The form of kernel that the task describes beside Bevel's, in one run: smooth L1, mean, of f32 arrays. The task's
// form: float4 loads with a tail, sums over warp, block and grid, 256 threads a block, at most 1024 blocks, and an
// atomic addition across blocks, for which the result must be set to 0 first.
//
//   nvcc -std=c++20 -O3 -arch=sm_90 --expt-relaxed-constexpr -I FOLDER kernel_form.cu -o kernel_form && ./kernel_form
//
// FOLDER holds `bevel`: an install prefix's include, a build folder's include, or a link of that name to the
// repository.
#include <bevel/ops/loss/smooth_l1_formula.h>
#include <bevel/ops/loss/raw.cuh>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace {

using bevel::gpu::check;

constexpr int threads = 256;

__device__ float loss_of(float difference, float beta, float& slope) {
  const float distance = fabsf(difference);
  const bool is_quadratic = distance < beta;
  slope = is_quadratic ? difference / beta : copysignf(1.0f, difference);
  return is_quadratic ? 0.5f * distance * distance / beta : distance - 0.5f * beta;
}

__device__ float block_sum(float mine) {
  __shared__ float of_warp[threads / 32];
  for (int step = 16; step > 0; step /= 2) mine += __shfl_down_sync(~0u, mine, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = threadIdx.x < threads / 32 ? of_warp[threadIdx.x] : 0.0f;
  if (threadIdx.x < 32)
    for (int step = 4; step > 0; step /= 2) mine += __shfl_down_sync(~0u, mine, step);
  return mine;
}

// The task's form; with a gradient where `gradient` is not null.
template <bool Gradient>
__global__ void __launch_bounds__(threads) task_kernel(const float* input, const float* target, float* gradient,
                                                       float* value, std::int64_t count, float beta) {
  const std::int64_t stride = std::int64_t{gridDim.x} * threads,
                     first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const float scale = 1.0f / static_cast<float>(count);
  float sum = 0;
  for (std::int64_t i = first; i < count / 4; i += stride) {
    const float4 a = reinterpret_cast<const float4*>(input)[i], b = reinterpret_cast<const float4*>(target)[i];
    float4 slope;
    sum += loss_of(a.x - b.x, beta, slope.x) + loss_of(a.y - b.y, beta, slope.y) + loss_of(a.z - b.z, beta, slope.z) +
           loss_of(a.w - b.w, beta, slope.w);
    if constexpr (Gradient)
      reinterpret_cast<float4*>(gradient)[i] = {slope.x * scale, slope.y * scale, slope.z * scale, slope.w * scale};
  }
  for (std::int64_t i = count / 4 * 4 + first; i < count; i += stride) {
    float slope;
    sum += loss_of(input[i] - target[i], beta, slope);
    if constexpr (Gradient) gradient[i] = slope * scale;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) atomicAdd(value, sum * scale);
}

void task_form(const float* input, const float* target, float* gradient, float* value, std::int64_t count,
               cudaStream_t stream) {
  const int blocks = static_cast<int>(std::clamp<std::int64_t>((count / 4 + threads - 1) / threads, 1, 1024));
  check(cudaMemsetAsync(value, 0, sizeof(float), stream), "memset");
  if (gradient)
    task_kernel<true><<<blocks, threads, 0, stream>>>(input, target, gradient, value, count, 1.0f);
  else
    task_kernel<false><<<blocks, threads, 0, stream>>>(input, target, gradient, value, count, 1.0f);
  check(cudaGetLastError(), "task_kernel");
}

void* workspace = nullptr;

void bevel_form(const float* input, const float* target, float* gradient, float* value, std::int64_t count,
                cudaStream_t stream) {
  bevel::raw::LossPass pass;
  pass.count = count;
  pass.input = input;
  pass.target = target;
  pass.factor = 1.0 / static_cast<double>(count);
  pass.value = value;
  pass.d_input = gradient;
  bevel::raw::launch_loss({stream, workspace, bevel::raw::loss_workspace_bytes}, bevel::formula::SmoothL1{1}, pass);
}

__global__ void fill(float* data, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    std::uint64_t bits = (static_cast<std::uint64_t>(i) + seed) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 31)) * 0xbf58476d1ce4e5b9u;
    data[i] = 4.0f * static_cast<float>(bits >> 40) / 16777216.0f - 2.0f;
  }
}

struct Arrays {
  float *input, *target, *gradient, *value;
};

using Form = std::function<void(const float*, const float*, float*, float*, std::int64_t, cudaStream_t)>;

// Microseconds a call, in replay of a graph of one call for each set of arrays.
double measure(const Form& form, const std::vector<Arrays>& sets, std::int64_t count, bool gradient,
               cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (const Arrays& a : sets) form(a.input, a.target, gradient ? a.gradient : nullptr, a.value, count, stream);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&replay, graph, 0), "instantiate");
  cudaEvent_t start, end;
  check(cudaEventCreate(&start), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < 13; ++i) {
    check(cudaEventRecord(start, stream), "record");
    check(cudaGraphLaunch(replay, stream), "launch");
    check(cudaEventRecord(end, stream), "record");
    check(cudaEventSynchronize(end), "wait");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, end), "elapsed");
    if (i >= 3) times.push_back(milliseconds);
  }
  std::sort(times.begin(), times.end());
  check(cudaGraphExecDestroy(replay), "destroy");
  check(cudaGraphDestroy(graph), "destroy");
  return 1000.0 * times[times.size() / 2] / static_cast<double>(sets.size());
}

// Different results among repetitions on the same arrays, and the largest relative error.
std::pair<std::size_t, double> repeat(const Form& form, const Arrays& a, std::int64_t count, double exact,
                                      cudaStream_t stream) {
  std::set<float> results;
  double worst = 0;
  for (int i = 0; i < 50; ++i) {
    float result = 0;
    form(a.input, a.target, nullptr, a.value, count, stream);
    check(cudaMemcpyAsync(&result, a.value, sizeof(float), cudaMemcpyDefault, stream), "copy");
    check(cudaStreamSynchronize(stream), "wait");
    results.insert(result);
    worst = std::max(worst, std::abs(result - exact) / exact);
  }
  return {results.size(), worst};
}

double exact_mean(const Arrays& a, std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count)), t(x.size());
  check(cudaMemcpy(x.data(), a.input, x.size() * sizeof(float), cudaMemcpyDefault), "copy");
  check(cudaMemcpy(t.data(), a.target, t.size() * sizeof(float), cudaMemcpyDefault), "copy");
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = std::abs(static_cast<double>(x[i] - t[i]));
    sum += d < 1 ? 0.5 * d * d : d - 0.5;
  }
  return sum / static_cast<double>(count);
}

}  // namespace

int main() {
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  check(cudaMalloc(&workspace, bevel::raw::loss_workspace_bytes), "malloc");
  check(cudaMemset(workspace, 0, bevel::raw::loss_workspace_bytes), "memset");
  const std::pair<const char*, Form> forms[] = {{"task's form", task_form}, {"Bevel", bevel_form}};
  std::printf("%12s  %-12s %11s %16s %18s %14s\n", "elements", "kernel", "forward us", "with gradient us",
              "different results", "largest error");
  for (const std::int64_t count : {std::int64_t{32} * 64 * 56 * 56, std::int64_t{1} << 26, std::int64_t{1} << 28}) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
    std::vector<Arrays> sets(bytes < (1u << 28) ? 8 : 2);
    for (std::size_t i = 0; i < sets.size(); ++i) {
      Arrays& a = sets[i];
      for (float** array : {&a.input, &a.target, &a.gradient}) check(cudaMalloc(array, bytes), "malloc");
      check(cudaMalloc(&a.value, sizeof(float)), "malloc");
      fill<<<1024, threads>>>(a.input, count, 2 * i);
      fill<<<1024, threads>>>(a.target, count, 2 * i + 1000003);
    }
    check(cudaDeviceSynchronize(), "fill");
    const double exact = exact_mean(sets[0], count);
    for (const auto& [name, form] : forms) {
      const double forward = measure(form, sets, count, false, stream), both = measure(form, sets, count, true, stream);
      const auto [different, error] = repeat(form, sets[0], count, exact, stream);
      std::printf("%12lld  %-12s %11.1f %16.1f %11zu of 50 %14.1e\n", static_cast<long long>(count), name, forward,
                  both, different, error);
    }
    for (const Arrays& a : sets)
      for (float* array : {a.input, a.target, a.gradient, a.value}) check(cudaFree(array), "free");
  }
}
