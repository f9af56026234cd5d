// Launching kernels so that a kernel may be set up while the one before it drains.
//
//   __global__ void scale(float* x, float factor) { gpu::begin_kernel(); ... }
//   gpu::launch(scale, {.blocks = 4, .threads = 256, .stream = gpu::stream(backend)}, "scale", x, 2.0f);
//
// From compute capability 9.0 on, the blocks of such a kernel take their places as soon as the kernel before it in the
// stream has none left to start, and wait there until it has ended and what it wrote can be seen. That hides the
// latency of a launch, about a microsecond for each kernel of a stream or graph. Older devices launch as ever.
#pragma once

#include <bevel/core/cuda/check.h>

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

namespace bevel::gpu {

// The first statement of every kernel that is launched by `launch`, for each of its threads: memory may be touched only
// after it. A kernel without it could end before its predecessor, and release its successor too early.
__device__ __forceinline__ void begin_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Whether the current device can set up a kernel early.
inline bool launches_early() {
  return current_device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 9;
}

struct LaunchShape {
  dim3 blocks = 1;
  dim3 threads = 1;
  std::size_t shared_bytes = 0;  // dynamic shared memory
  cudaStream_t stream = nullptr;
  unsigned cluster = 1;  // blocks along x that share their memory; from compute capability 9.0 on
};

// The stream's device must be current. Throws Error with `what`, the kernel's name, if the launch fails.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, const char* what, Arguments&&... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.blocks;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = shape.stream;
  config.attrs = attributes;
  if (shape.cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {shape.cluster, 1, 1};
  }
  if (launches_early()) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), what);
}

}  // namespace bevel::gpu
