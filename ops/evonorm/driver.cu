#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/evonorm/detail/problem.h>

namespace bevel::evo {

raw::EvoNormMemory memory(Cuda backend, const Problem& problem) {
  const gpu::DeviceGuard guard(backend.device);
  return raw::evonorm_memory(raw::OnStream{}, problem);
}

void forward(Cuda backend, const Problem& problem, const raw::EvoNormForward& arrays, const Workspace& workspace) {
  const gpu::DeviceGuard guard(backend.device);
  raw::evonorm_forward({gpu::stream(backend), workspace.data, workspace.bytes}, problem, arrays);
}

void backward(Cuda backend, const Problem& problem, const raw::EvoNormBackward& arrays, const Workspace& workspace) {
  const gpu::DeviceGuard guard(backend.device);
  raw::evonorm_backward({gpu::stream(backend), workspace.data, workspace.bytes}, problem, arrays);
}

}  // namespace bevel::evo
