// How a multiprocessor's memory is divided.
#pragma once

#include <bevel/core/cuda/check.h>

#include <cuda_runtime.h>

namespace bevel::evo {

// As much shared memory as there is, and little first-level cache, whether the kernel needs it or not: between kernels
// that want it divided differently a multiprocessor has to run empty.
template <class... Parameters>
void prefer_shared_memory(void (*kernel)(Parameters...), const char* name) {
  gpu::check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
      name);
}

}  // namespace bevel::evo
