#include "backward.h"

#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "device.h"

#if defined(BEVEL_TORCH_CUDA)
#include <c10/cuda/CUDAGraphsC10Utils.h>
#endif

namespace bevel_torch {

namespace {

class InCallingThread {
 public:
  InCallingThread() { state().set_multithreading_enabled(false); }
  ~InCallingThread() { state().set_multithreading_enabled(before_); }
  InCallingThread(const InCallingThread&) = delete;
  InCallingThread& operator=(const InCallingThread&) = delete;

 private:
  static c10::AutogradState& state() { return c10::AutogradState::get_tls_state(); }

  bool before_ = state().get_multithreading_enabled();
};

// Numbers 1, one for each device and dtype, each with its version when it was written. Kept to the end of the process,
// when PyTorch's allocators may be gone.
struct One {
  at::Tensor tensor;
  int64_t version;

  bool is_unchanged() const { return tensor._version() == version; }  // hooks may break PyTorch's rules
};
struct Ones {
  std::mutex mutex;
  std::vector<One> all;
};

Ones& ones() {
  static auto& kept = *new Ones;
  return kept;
}

// Streams other than the current one may read it without further ado.
One make_one(const at::Tensor& like) {
  at::Tensor one = at::ones({}, like.options());
#if defined(BEVEL_TORCH_CUDA)
  if (one.is_cuda()) c10::cuda::getCurrentCUDAStream(one.device().index()).synchronize();
#endif
  const int64_t version = one._version();
  return {std::move(one), version};
}

// While a graph is recorded nothing can be waited for, and new memory belongs to the graph.
bool is_recorded([[maybe_unused]] const at::Tensor& tensor) {
#if defined(BEVEL_TORCH_CUDA)
  return tensor.is_cuda() && c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
#else
  return false;
#endif
}

at::Tensor one_like(const at::Tensor& loss) {
  const std::lock_guard lock(ones().mutex);
  auto& all = ones().all;
  std::erase_if(all, [](const One& one) { return !one.is_unchanged(); });
  for (const One& one : all)
    if (one.tensor.device() == loss.device() && one.tensor.scalar_type() == loss.scalar_type()) return one.tensor;
  if (is_recorded(loss)) return at::ones({}, loss.options());
  return all.emplace_back(make_one(loss)).tensor;
}

}  // namespace

void backward(const at::Tensor& loss) {
  const InCallingThread here;
  torch::autograd::Engine::get_default_engine().execute({torch::autograd::impl::gradient_edge(loss)}, {one_like(loss)},
                                                        false, false, true);
}

bool is_known_one(const at::Tensor& tensor) {
  const std::lock_guard lock(ones().mutex);
  const auto& all = ones().all;
  return std::any_of(all.begin(), all.end(),
                     [&](const One& one) { return one.tensor.is_same(tensor) && one.is_unchanged(); });
}

}  // namespace bevel_torch
