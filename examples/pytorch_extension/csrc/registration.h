// Registering operators with PyTorch's dispatcher.
#pragma once

#include <torch/library.h>

namespace bevel_torch {

// While it lives, the kernels that `add` names serve the CPU and, where the extension is built with it, CUDA.
class DeviceKernels {
 public:
  explicit DeviceKernels(void (*add)(torch::Library&)) {
    add(cpu_);
#if defined(BEVEL_TORCH_CUDA)
    add(cuda_);
#endif
  }

 private:
  static torch::Library library_for(c10::DispatchKey key) {
    return {torch::Library::IMPL, "bevel", key, __FILE__, __LINE__};
  }

  torch::Library cpu_ = library_for(c10::DispatchKey::CPU);
#if defined(BEVEL_TORCH_CUDA)
  torch::Library cuda_ = library_for(c10::DispatchKey::CUDA);
#endif
};

}  // namespace bevel_torch
