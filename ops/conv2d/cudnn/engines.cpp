#include <bevel/ops/conv2d/cudnn/engines.h>

#include <algorithm>
#include <array>

namespace bevel::detail {

namespace {

cudnnDataType_t data_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return CUDNN_DATA_FLOAT;
    case Dtype::bf16:
      return CUDNN_DATA_BFLOAT16;
    case Dtype::f16:
      return CUDNN_DATA_HALF;
    default:
      fail("conv2d: cuDNN is not used for ", dtype);
  }
}

using Four = std::array<std::int64_t, 4>;

// cuDNN counts axes as [n, c, h, w] whatever the layout; strides say how [n, h, w, c] lies.
Descriptor tensor(std::int64_t id, Dtype dtype, const Shape& nhwc, std::int64_t alignment) {
  const Four sizes{nhwc[0], nhwc[3], nhwc[1], nhwc[2]};
  const Four strides{nhwc[1] * nhwc[2] * nhwc[3], 1, nhwc[2] * nhwc[3], nhwc[3]};
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(dtype));
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const std::int64_t>(sizes));
  d.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const std::int64_t>(strides));
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  d.finalize("cuDNN tensor descriptor");
  return d;
}

Descriptor convolution(const ConvShape& s) {
  using Two = std::array<std::int64_t, 2>;
  const Two padding{s.padding.h, s.padding.w};
  const Two stride{s.stride.h, s.stride.w};
  const Two dilation{s.dilation.h, s.dilation.w};
  Descriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  d.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span<const std::int64_t>(padding));
  d.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span<const std::int64_t>(padding));
  d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span<const std::int64_t>(stride));
  d.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span<const std::int64_t>(dilation));
  d.finalize("cuDNN convolution descriptor");
  return d;
}

// cuDNN's names for the parts of an operation.
struct PassNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, w, y;
};

PassNames names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case ConvPass::data_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  }
}

Descriptor operation_graph(cudnnHandle_t handle, const CudnnProblem& p) {
  const PassNames names = names_of(p.pass);
  const auto dtype = [&](ConvPass writes) { return p.pass == writes ? p.result : p.dtype; };
  const Descriptor x = tensor(cudnn_ids[0], dtype(ConvPass::data_gradient), p.shape.input(), p.alignment);
  const Descriptor w = tensor(cudnn_ids[1], dtype(ConvPass::filter_gradient), p.shape.weight(), p.alignment);
  const Descriptor y = tensor(cudnn_ids[2], dtype(ConvPass::forward), p.shape.output(), p.alignment);
  const Descriptor conv = convolution(p.shape);
  Descriptor operation(names.type);
  operation.set(names.convolution, conv);
  operation.set(names.x, x);
  operation.set(names.w, w);
  operation.set(names.y, y);
  operation.set(names.alpha, 1.0F);  // of the type in which cuDNN computes
  operation.set(names.beta, 0.0F);
  operation.finalize("cuDNN convolution operation");
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalize("cuDNN operation graph");
  return graph;
}

Descriptor engine_of(const Descriptor& config) {
  std::vector<Descriptor> engine;
  engine.emplace_back(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  require(!engine.empty(), "conv2d: cuDNN gave an engine configuration without an engine");
  return std::move(engine.front());
}

std::string name_of(const Descriptor& config, const Descriptor& engine) {
  const auto index = engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1);
  std::vector<Descriptor> choices;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices);
  std::string text = message("eng", index.at(0), "{");
  for (const Descriptor& choice : choices) {
    const auto type = choice.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 1);
    const auto value = choice.get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1);
    text += message(text.back() == '{' ? "" : ",", static_cast<int>(type.at(0)), "=", value.at(0));
  }
  return text + "}";
}

bool has(const std::vector<cudnnBackendNumericalNote_t>& notes, cudnnBackendNumericalNote_t note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

bool rounds_as_promised(const std::vector<cudnnBackendNumericalNote_t>& notes, const CudnnProblem& p) {
  // Of Winograd's engines some bear the note of their tile only.
  for (const cudnnBackendNumericalNote_t unwanted :
       {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13})
    if (has(notes, unwanted)) return false;
  if (p.dtype != f32) return true;
  // On f32 tensor cores round the operands to TF32; what rounds further is never wanted.
  return !has(notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) &&
         (p.tf32 || !has(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
}

void propose(cudnnBackendHeurMode_t mode, const Descriptor& graph, const CudnnProblem& p,
             std::vector<Engine>& engines) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (!heuristics.try_finalize()) return;
  constexpr int most = 64;
  std::vector<Descriptor> configs;
  for (int i = 0; i < most; ++i) configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, configs);
  for (Descriptor& config : configs) {
    const Descriptor engine = engine_of(config);
    const auto notes =
        engine.get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    if (!rounds_as_promised(notes, p)) continue;
    const auto behaviour =
        engine.get<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
    const bool compiled =
        std::find(behaviour.begin(), behaviour.end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != behaviour.end();
    std::string name = name_of(config, engine);
    if (std::any_of(engines.begin(), engines.end(), [&](const Engine& e) { return e.name == name; })) continue;
    engines.push_back({std::move(config), std::move(name), !has(notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC),
                       has(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE), compiled});
  }
}

}  // namespace

std::vector<Engine> cudnn_engines(cudnnHandle_t handle, const CudnnProblem& problem) {
  std::vector<Engine> engines;
  const Descriptor graph = operation_graph(handle, problem);
  propose(CUDNN_HEUR_MODE_A, graph, problem, engines);
  propose(CUDNN_HEUR_MODE_FALLBACK, graph, problem, engines);
  return engines;
}

bool make_plan(cudnnHandle_t handle, const Engine& engine, CudnnPlan& result) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
  if (!plan.try_finalize()) return false;
  const std::int64_t workspace = plan.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1).at(0);
  result = {std::move(plan), workspace, engine.name};
  return true;
}

void execute(cudnnHandle_t handle, const CudnnPlan& plan, std::span<void* const, 3> data, void* workspace) {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const std::int64_t>(cudnn_ids));
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span<void* const>(data));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  pack.finalize("cuDNN variant pack");
  gpu::check(cudnnBackendExecute(handle, plan.plan.get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace bevel::detail
