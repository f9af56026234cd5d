// cuDNN behind typed checks, where CMake found it (has_cudnn). Included by ops/conv2d/cudnn/ and core/cuda/cudnn.cpp.
#pragma once

#include <bevel/core/device.h>

#include <cudnn.h>

namespace bevel::gpu {

// Throws Error with what failed and cuDNN's own words.
void check(cudnnStatus_t status, const char* what);

// A handle of this thread, set to the current stream of `device`. Kept to the end of the process.
cudnnHandle_t cudnn(Device device);

}  // namespace bevel::gpu
