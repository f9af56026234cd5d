// Kernel-level functions: the library's kernels on plain pointers, without Tensor and without autograd, for programs
// that have tensors of their own. Each operator's are in its folder's raw.h (ops/loss/raw.h, ops/evonorm/raw.h).
//
// The same rules hold for all of them:
// - `bevel::Cpu{}` as the first argument runs on the CPU's threads and returns when it is done. A raw::OnStream queues
//   on that stream and returns at once; nothing waits, nothing is allocated, so calls may be captured in a CUDA graph.
// - Arrays are dense, in the memory of that device, aligned to their elements, and do not overlap unless a function
//   says so. Where their addresses are divisible by 16, wider loads are used.
// - Contents are not checked. Sizes, dtypes and options that a function has no kernel for are an Error, as are failed
//   launches.
// - The result is the one that the functions on tensors give, to the last bit: these call the functions here.
#pragma once

#include <cstddef>

namespace bevel::raw {

// Where a call on CUDA runs, and the memory that it may use meanwhile.
struct OnStream {
  void* stream = nullptr;  // a cudaStream_t of the calling thread's current device; null is the default stream
  // Device memory, aligned to 256 bytes. How much is needed, and what must be in it, says each operator's header. Calls
  // that may run at the same time must not share it; calls on one stream may.
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

}  // namespace bevel::raw
