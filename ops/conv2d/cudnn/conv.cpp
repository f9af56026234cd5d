// The three passes of a convolution through cuDNN: one plan a shape, kept to the end of the process.
#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/conv2d/cudnn/choices.h>
#include <bevel/ops/conv2d/cudnn/engines.h>
#include <bevel/ops/conv2d/detail/backends.h>
#include <bevel/ops/conv2d/settings.h>
#include <bevel/ops/matmul/detail/bias.h>
#include <bevel/ops/matmul/matmul.h>
#include <bevel/ops/pointwise/detail/cast_kernels.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>

namespace bevel::detail {

namespace {

// Engines that want more than this are passed over where another is there. Those that do rearrange whole tensors in
// memory first, and where cuDNN's heuristics put them in front of others they were up to seven times slower.
constexpr std::int64_t most_workspace = std::int64_t{16} << 20;

// Within: calls that a capture on this thread would forbid, such as the loading of a kernel, are let through.
class RelaxedCapture {
 public:
  RelaxedCapture() { gpu::check(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode"); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

bool is_capturing(Cuda backend) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  gpu::check(cudaStreamIsCapturing(gpu::stream(backend), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

using Key = std::array<std::int64_t, 22>;

Key key_of(Cuda backend, const CudnnProblem& p, const ConvSettings& settings) {
  const ConvShape& s = p.shape;
  return {backend.device.index,
          static_cast<std::int64_t>(p.pass),
          static_cast<std::int64_t>(p.dtype),
          static_cast<std::int64_t>(p.result),
          p.tf32,
          p.alignment,
          s.batch,
          s.height,
          s.width,
          s.channels,
          s.out_channels,
          s.kernel_h,
          s.kernel_w,
          s.stride.h,
          s.stride.w,
          s.padding.h,
          s.padding.w,
          s.dilation.h,
          s.dilation.w,
          s.groups,
          settings.deterministic,
          settings.timed};
}

// Microseconds of one call: the least of several.
double time_plan(cudnnHandle_t handle, cudaStream_t stream, const CudnnPlan& plan, std::span<void* const, 3> data,
                 void* workspace) {
  const gpu::Event begin = gpu::make_event(true);
  const gpu::Event end = gpu::make_event(true);
  float best = 0;
  execute(handle, plan, data, workspace);
  for (int i = 0; i < 5; ++i) {
    gpu::check(cudaEventRecord(begin.get(), stream), "cudaEventRecord");
    execute(handle, plan, data, workspace);
    gpu::check(cudaEventRecord(end.get(), stream), "cudaEventRecord");
    gpu::check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
    float ms = 0;
    gpu::check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "cudaEventElapsedTime");
    best = i == 0 ? ms : std::min(best, ms);
  }
  return static_cast<double>(best) * 1e3;
}

bool allowed(const Engine& engine, const ConvSettings& settings) {
  return engine.deterministic || !settings.deterministic;
}

// Calls f(plan) for each allowed engine that runs, best first, until f says true. Engines on tensor cores come before
// others, and last those that are compiled at run time, which takes up to a second; among each kind those with a large
// workspace come after the others.
template <class F>
void for_plans(cudnnHandle_t handle, const std::vector<Engine>& engines, const ConvSettings& settings, const F& f) {
  const auto kind = [](const Engine& engine) { return engine.compiled_at_run_time ? 2 : engine.tensor_cores ? 0 : 1; };
  for (const int wanted : {0, 1, 2}) {
    std::vector<CudnnPlan> large;
    for (const Engine& engine : engines) {
      CudnnPlan plan{Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), 0, {}};
      if (kind(engine) != wanted || !allowed(engine, settings) || !make_plan(handle, engine, plan)) continue;
      if (plan.workspace > most_workspace)
        large.push_back(std::move(plan));
      else if (f(std::move(plan)))
        return;
    }
    for (CudnnPlan& plan : large)
      if (f(std::move(plan))) return;
  }
}

using PlanPointer = std::shared_ptr<const CudnnPlan>;

PlanPointer first_plan(cudnnHandle_t handle, const std::vector<Engine>& engines, const ConvSettings& settings) {
  PlanPointer result;
  for_plans(handle, engines, settings, [&](CudnnPlan plan) {
    result = std::make_shared<const CudnnPlan>(std::move(plan));
    return true;
  });
  return result;
}

PlanPointer fastest_plan(Cuda backend, cudnnHandle_t handle, const std::vector<Engine>& engines,
                         const ConvSettings& settings, std::span<void* const, 3> data) {
  PlanPointer best;
  double best_us = 0;
  for_plans(handle, engines, settings, [&](CudnnPlan plan) {
    const auto workspace = Buffer::allocate(static_cast<std::size_t>(plan.workspace), backend.device);
    const double us = time_plan(handle, gpu::stream(backend), plan, data, workspace->data());
    if (!best || us < best_us) {
      best = std::make_shared<const CudnnPlan>(std::move(plan));
      best_us = us;
    }
    return false;
  });
  return best;
}

PlanPointer named_plan(cudnnHandle_t handle, const std::vector<Engine>& engines, const std::string& name) {
  for (const Engine& engine : engines) {
    CudnnPlan plan{Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), 0, {}};
    if (engine.name == name && make_plan(handle, engine, plan))
      return std::make_shared<const CudnnPlan>(std::move(plan));
  }
  return {};
}

PlanPointer choose_plan(Cuda backend, const CudnnProblem& problem, const ConvSettings& settings,
                        std::span<void* const, 3> data, bool capturing) {
  const RelaxedCapture relaxed;
  cudnnHandle_t const handle = gpu::cudnn(backend.device);
  std::vector<Engine> engines = cudnn_engines(handle, problem);
  if (!settings.timed) return first_plan(handle, engines, settings);
  if (const std::string name = recorded_choice(backend, problem, settings); !name.empty())
    if (PlanPointer plan = named_plan(handle, engines, name)) return plan;
  if (capturing) return first_plan(handle, engines, settings);
  PlanPointer plan = fastest_plan(backend, handle, engines, settings, data);
  if (plan) record_choice(backend, problem, settings, plan->engine);
  return plan;
}

// Null where cuDNN cannot do this one.
PlanPointer plan_for(Cuda backend, const CudnnProblem& problem, std::span<void* const, 3> data) {
  static std::mutex mutex;
  static auto& plans = *new std::map<Key, PlanPointer>;  // never destroyed: the driver may be gone before
  const ConvSettings settings = conv_settings();
  const Key key = key_of(backend, problem, settings);
  const std::lock_guard lock(mutex);
  if (const auto found = plans.find(key); found != plans.end()) return found->second;
  const bool capturing = settings.timed && is_capturing(backend);
  PlanPointer plan = choose_plan(backend, problem, settings, data, capturing);
  if (!capturing) plans.emplace(key, plan);
  return plan;
}

// The largest power of two up to 16 that divides every address.
std::int64_t alignment_of(std::span<void* const, 3> data) {
  std::uintptr_t bits = 16;
  for (void* const address : data) bits |= reinterpret_cast<std::uintptr_t>(address);
  return static_cast<std::int64_t>(bits & ~(bits - 1));
}

bool run(Cuda backend, ConvPass pass, const ConvShape& shape, const Tensor& x, const Tensor& w, const Tensor& y) {
  const Tensor& result = pass == ConvPass::forward ? y : pass == ConvPass::data_gradient ? x : w;
  const Dtype dtype = pass == ConvPass::forward ? x.dtype() : y.dtype();
  if (dtype == f64 || x.numel() == 0 || y.numel() == 0) return false;
  const gpu::DeviceGuard guard(backend.device);
  const std::array<void*, 3> data{x.raw(), w.raw(), y.raw()};
  const CudnnProblem problem{.pass = pass,
                             .dtype = dtype,
                             .result = result.dtype(),
                             .tf32 = dtype == f32 && matmul_precision() == Precision::tf32,
                             .alignment = alignment_of(data),
                             .shape = shape};
  const PlanPointer plan = plan_for(backend, problem, data);
  if (!plan) return false;
  const auto workspace = Buffer::allocate(static_cast<std::size_t>(plan->workspace), backend.device);
  execute(gpu::cudnn(backend.device), *plan, data, workspace->data());
  last_conv_engine() = plan->engine;
  return true;
}

}  // namespace

bool cudnn_forward(Cuda backend, const ConvShape& shape, const Tensor& input, const Tensor& weight, const Tensor& bias,
                   const Tensor& output) {
  if (!run(backend, ConvPass::forward, shape, input, weight, output)) return false;
  if (bias.defined()) add_bias(backend, output, bias);
  return true;
}

bool cudnn_data_gradient(Cuda backend, const ConvShape& shape, const Tensor& output_gradient, const Tensor& weight,
                         const Tensor& input_gradient) {
  return run(backend, ConvPass::data_gradient, shape, input_gradient, weight, output_gradient);
}

bool cudnn_filter_gradient(Cuda backend, const ConvShape& shape, const Tensor& input, const Tensor& output_gradient,
                           const Tensor& weight_gradient) {
  if (weight_gradient.dtype() == input.dtype())
    return run(backend, ConvPass::filter_gradient, shape, input, weight_gradient, output_gradient);
  // cuDNN's fast engines write the type that they read.
  const Tensor half = Tensor::empty(weight_gradient.shape(), input.options());
  if (!run(backend, ConvPass::filter_gradient, shape, input, half, output_gradient)) return false;
  pointwise::cast_kernel(backend, weight_gradient, half);
  return true;
}

}  // namespace bevel::detail
