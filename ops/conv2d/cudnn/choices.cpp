#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/conv2d/cudnn/choices.h>

#include <fstream>

namespace bevel::detail {

namespace {

// The problem in words, of one line and without tabs.
std::string text_of(Cuda backend, const CudnnProblem& p, const ConvSettings& settings) {
  constexpr const char* passes[] = {"forward", "data gradient", "filter gradient"};
  cudaDeviceProp properties{};
  gpu::check(cudaGetDeviceProperties(&properties, backend.device.index), "cudaGetDeviceProperties");
  const ConvShape& s = p.shape;
  return message(properties.name, ", cuDNN ", cudnnGetVersion(), ", ", passes[static_cast<int>(p.pass)], " ", p.dtype,
                 " to ", p.result, p.tf32 ? " tf32" : "", settings.deterministic ? "" : " any", ", aligned ",
                 p.alignment, ", ", s.input(), " * ", s.weight(), " stride ", s.stride, " padding ", s.padding,
                 " dilation ", s.dilation);
}

}  // namespace

std::string recorded_choice(Cuda backend, const CudnnProblem& problem, const ConvSettings& settings) {
  if (settings.choices.empty()) return {};
  std::ifstream file(settings.choices);
  const std::string wanted = text_of(backend, problem, settings) + '\t';
  std::string engine;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(wanted)) engine = line.substr(wanted.size());
  return engine;
}

void record_choice(Cuda backend, const CudnnProblem& problem, const ConvSettings& settings, const std::string& engine) {
  if (settings.choices.empty()) return;
  std::ofstream file(settings.choices, std::ios::app);
  file << text_of(backend, problem, settings) << '\t' << engine << std::endl;
  require(file.good(), "conv2d: the choice of an engine cannot be written to ", settings.choices);
}

}  // namespace bevel::detail
