// Where Bevel's kernels run: on the CPU's threads, or on PyTorch's current stream with memory from its allocator.
#pragma once

#include <ATen/ATen.h>
#include <bevel/core/device.h>
#include <bevel/ops/loss/pass.h>
#include <bevel/ops/raw.h>

namespace bevel_torch {

// Calls f(bevel::Cpu{}).
struct OnCpu {
  explicit OnCpu(const at::Tensor&) {}
  template <class F>
  auto with_loss_workspace(const F& f) const {
    return f(bevel::Cpu{});
  }
  template <class F>
  auto with_memory(std::size_t, const F& f) const {
    return f(bevel::Cpu{});
  }
};

}  // namespace bevel_torch

#if defined(BEVEL_TORCH_CUDA)
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace bevel_torch {

// A loss's workspace, zeros at first, that belongs to the stream (while a graph is recorded: to the stream within that
// graph), so that kernels that share it never run at the same time. Kept to the end of the process.
void* stream_workspace(c10::cuda::CUDAStream stream);

// Makes the tensor's device current while it lives, and calls f(bevel::raw::OnStream).
class OnCuda {
 public:
  explicit OnCuda(const at::Tensor& tensor)
      : guard_(tensor.device()), stream_(c10::cuda::getCurrentCUDAStream(tensor.device().index())) {}

  // With the workspace of losses.
  template <class F>
  auto with_loss_workspace(const F& f) const {
    return f(bevel::raw::OnStream{stream_.stream(), stream_workspace(stream_), bevel::raw::loss_workspace_bytes});
  }
  // With scratch memory.
  template <class F>
  auto with_memory(std::size_t bytes, const F& f) const {
    const c10::DataPtr memory = c10::cuda::CUDACachingAllocator::get()->allocate(bytes);
    return f(bevel::raw::OnStream{stream_.stream(), memory.get(), bytes});
  }

 private:
  c10::cuda::CUDAGuard guard_;
  c10::cuda::CUDAStream stream_;
};

}  // namespace bevel_torch
#endif

namespace bevel_torch {

// New tensors, on CUDA without the way through the dispatcher, which is a good part of what a small call costs.
inline at::Tensor new_like(const at::Tensor& tensor) {
#if defined(BEVEL_TORCH_CUDA)
  if (tensor.is_cuda()) return at::detail::empty_strided_cuda(tensor.sizes(), tensor.strides(), tensor.options());
#endif
  return at::empty_like(tensor);
}
inline at::Tensor new_number(const at::Tensor& tensor) {
#if defined(BEVEL_TORCH_CUDA)
  if (tensor.is_cuda()) return at::detail::empty_cuda({}, tensor.options());
#endif
  return at::empty({}, tensor.options());
}

}  // namespace bevel_torch
