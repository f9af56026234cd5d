// cuDNN's engines for one pass of one convolution.
#pragma once

#include <bevel/ops/conv2d/cudnn/descriptor.h>
#include <bevel/ops/conv2d/detail/conv.h>

#include <string>
#include <vector>

namespace bevel::detail {

enum class ConvPass : std::uint8_t { forward, data_gradient, filter_gradient };

// Everything that decides which engines there are. `result` is the dtype of what the pass writes.
struct CudnnProblem {
  ConvPass pass;
  Dtype dtype, result;
  bool tf32;
  std::int64_t alignment;  // in bytes, of every tensor
  ConvShape shape;
};

// The identifiers of the three tensors of a pass: x, w, y, or their gradients.
inline constexpr std::int64_t cudnn_ids[] = {1, 2, 3};

struct Engine {
  Descriptor config;
  std::string name;  // engine and knobs, such as eng42{3=1,11=64}; the same engine has the same name in every run
  bool deterministic = true;
  bool tensor_cores = false;
  bool compiled_at_run_time = false;
};

// The engines that cuDNN's heuristics propose, best first, among those that round as Bevel promises: sums in f32,
// products of f32 as TF32 only where `tf32` allows, no transforms (FFT, Winograd), which would cost accuracy. Empty
// where cuDNN has none.
std::vector<Engine> cudnn_engines(cudnnHandle_t handle, const CudnnProblem& problem);

// An engine made ready to run.
struct CudnnPlan {
  Descriptor plan;
  std::int64_t workspace = 0;  // bytes
  std::string engine;
};

// Whether `engine` runs this problem on this GPU; fills `plan` if so.
bool make_plan(cudnnHandle_t handle, const Engine& engine, CudnnPlan& plan);

// Queues the plan on the handle's stream. `data`: the tensors in the order of cudnn_ids.
void execute(cudnnHandle_t handle, const CudnnPlan& plan, std::span<void* const, 3> data, void* workspace);

}  // namespace bevel::detail
