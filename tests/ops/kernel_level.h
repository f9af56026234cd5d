// Calling kernel-level functions on the memory of tensors.
#pragma once

#include <bevel/core/stream.h>
#include <bevel/ops/raw.h>

#include "testing.h"

namespace bevel::testing {

inline Tensor byte_tensor(std::size_t bytes, Device device) {
  return Tensor::zeros({static_cast<std::int64_t>(bytes)}, {.dtype = u8, .device = device});
}

// Calls f(Cpu{}) or f(OnStream), the latter on the device's current stream with this workspace.
template <class F>
auto on_kernel_level(const Tensor& workspace, const F& f) {
  if (!workspace.device().is_cuda()) return f(Cpu{});
  const raw::OnStream where{current_stream(workspace.device()).handle(), workspace.raw(),
                            static_cast<std::size_t>(workspace.bytes())};
  return f(where);
}

}  // namespace bevel::testing
