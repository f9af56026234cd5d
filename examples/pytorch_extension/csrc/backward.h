// loss.backward() without its detours.
#pragma once

#include <ATen/ATen.h>

namespace bevel_torch {

// Adds the gradients of a number to the leaves of its history, as loss.backward() does. All of it runs in the calling
// thread, where PyTorch's engine would hand work on a GPU to a thread of the device and wait for that; and the upstream
// gradient is a number 1 that is there already. The caller must not hold Python's lock.
void backward(const at::Tensor& loss);

// Whether the tensor is the upstream gradient that `backward` starts with, so that its value is known to be 1.
bool is_known_one(const at::Tensor& tensor);

}  // namespace bevel_torch
