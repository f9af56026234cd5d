"""The task's model on Bevel's kernels in one file: torch.utils.cpp_extension.load_inline compiles it from Bevel's headers,
without the library. A CUDA device is needed, and nvcc.

The headers are found beside this file in Bevel's repository, or where BEVEL_INCLUDE says: a folder that holds `bevel`.
"""

import os
import pathlib
import tempfile

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

N, C, H, W = 32, 64, 56, 56

CUDA_SOURCE = r"""
#include <bevel/ops/loss/raw.cuh>
#include <bevel/ops/loss/smooth_l1_formula.h>

// Smooth L1 of f32 arrays: the loss, the gradient with respect to the input, or both in one pass.
void loss_pass(const float* input, const float* target, int64_t count, double beta, double factor, float* value,
               bool value_each, const float* upstream, float* gradient, void* stream, void* workspace) {
  bevel::raw::LossPass pass;
  pass.count = count;
  pass.input = input;
  pass.target = target;
  pass.factor = factor;
  pass.value = value;
  pass.value_each = value_each;
  pass.upstream = upstream;
  pass.upstream_each = upstream != nullptr;
  pass.d_input = gradient;
  bevel::raw::launch_loss({stream, workspace, bevel::raw::loss_workspace_bytes}, bevel::formula::SmoothL1{beta}, pass);
}

// gradient = gradient * upstream, nothing at all where upstream is 1.
void scale_pass(float* gradient, const float* upstream, int64_t count, void* stream) {
  bevel::raw::launch_scale_gradient({stream}, {bevel::f32, count, gradient, upstream, false, gradient});
}

int64_t workspace_bytes() { return static_cast<int64_t>(bevel::raw::loss_workspace_bytes); }
"""

CPP_SOURCE = r"""
#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/extension.h>

using at::Tensor;
using torch::autograd::variable_list;

void loss_pass(const float* input, const float* target, int64_t count, double beta, double factor, float* value,
               bool value_each, const float* upstream, float* gradient, void* stream, void* workspace);
void scale_pass(float* gradient, const float* upstream, int64_t count, void* stream);
int64_t workspace_bytes();

enum Reduction { none, mean, sum };

void* stream_of(const Tensor& x) { return c10::cuda::getCurrentCUDAStream(x.device().index()).stream(); }

struct LossBackward final : torch::autograd::Node {
  Tensor input, target, gradient;  // of these the first two (none), or the last
  double beta = 1;
  bool releases = false, released = false;

  std::string name() const override { return "SmoothL1Backward"; }
  void will_release_variables() override { releases = true; }
  void release_variables() override {
    input.reset();
    target.reset();
    gradient.reset();
    released = true;
  }
  variable_list apply(variable_list&& grads) override {
    TORCH_CHECK(!released, "this graph has been through backward already; retain_graph=True would keep it");
    TORCH_CHECK(!at::GradMode::is_enabled(), "the one-file loss has no second derivative; the package has");
    variable_list result(2);
    if (!grads[0].defined()) return result;
    Tensor d_input;
    if (gradient.defined() && !releases) {
      d_input = gradient * grads[0];
    } else if (gradient.defined()) {
      const c10::cuda::CUDAGuard guard(gradient.device());
      scale_pass(gradient.data_ptr<float>(), grads[0].const_data_ptr<float>(), gradient.numel(), stream_of(gradient));
      d_input = std::move(gradient);
    } else {
      const c10::cuda::CUDAGuard guard(input.device());
      const Tensor upstream = grads[0].contiguous();
      d_input = at::empty_like(input);
      loss_pass(input.const_data_ptr<float>(), target.const_data_ptr<float>(), input.numel(), beta, 1, nullptr, false,
                upstream.const_data_ptr<float>(), d_input.data_ptr<float>(), stream_of(input), nullptr);
    }
    if (task_should_compute_output(1)) result[1] = d_input.neg();
    if (task_should_compute_output(0)) result[0] = std::move(d_input);
    return result;
  }
};

Tensor smooth_l1(const Tensor& input, const Tensor& target, int64_t reduction, double beta, const Tensor& workspace) {
  TORCH_CHECK(input.is_cuda() && input.scalar_type() == at::kFloat && target.scalar_type() == at::kFloat,
              "input and target must be f32 on a CUDA device");
  TORCH_CHECK(input.sizes() == target.sizes(), "input and target must have the same sizes");
  TORCH_CHECK(target.device() == input.device() && workspace.device() == input.device(), "tensors on several devices");
  const bool wants_gradient = torch::autograd::compute_requires_grad(input, target), each = reduction == none;
  const c10::cuda::CUDAGuard guard(input.device());
  std::shared_ptr<LossBackward> node;
  if (wants_gradient) {
    node = std::shared_ptr<LossBackward>(new LossBackward, torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges(input, target));
  }
  Tensor value;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor x = input.contiguous(), t = target.contiguous();
    value = each ? at::empty_like(x) : at::empty({}, x.options());
    Tensor gradient;
    if (wants_gradient && !each) gradient = at::empty_like(x);
    const double factor = reduction == mean ? 1.0 / static_cast<double>(x.numel()) : 1.0;
    loss_pass(x.const_data_ptr<float>(), t.const_data_ptr<float>(), x.numel(), beta, factor, value.data_ptr<float>(),
              each, nullptr, gradient.defined() ? gradient.data_ptr<float>() : nullptr, stream_of(x),
              workspace.data_ptr());
    if (node) {
      node->beta = beta;
      node->gradient = gradient;
      if (each) node->input = x.detach(), node->target = t.detach();
    }
  }
  if (node) torch::autograd::set_history(value, node);
  return value;
}
"""


def include_folder():
    if "BEVEL_INCLUDE" in os.environ:
        return os.environ["BEVEL_INCLUDE"]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bevel-include-"))
    (folder / "bevel").symlink_to(pathlib.Path(__file__).resolve().parents[3])
    return str(folder)


kernels = load_inline(
    name="bevel_smooth_l1_inline",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["smooth_l1", "workspace_bytes"],
    extra_include_paths=[include_folder()],
    extra_cflags=["-O2", "-std=c++20"],
    extra_cuda_cflags=["-O3", "-std=c++20", "--expt-relaxed-constexpr"],
    no_implicit_headers=True,
)


class ModelNew(nn.Module):
    """One module for one stream at a time: its workspace belongs to the module."""

    REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}

    def __init__(self, reduction="mean", beta=1.0):
        super().__init__()
        self.reduction = self.REDUCTIONS[reduction]
        self.beta = float(beta)
        self.workspace = torch.zeros(kernels.workspace_bytes(), dtype=torch.uint8, device="cuda")

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        workspace = self.workspace
        if not input.is_cuda:
            input = input.to(workspace.device)
        if not target.is_cuda:
            target = target.to(workspace.device)
        return kernels.smooth_l1(input, target, self.reduction, self.beta, workspace)


def get_inputs():
    return [torch.randn(N, C, H, W), torch.randn(N, C, H, W)]


def get_init_inputs():
    return ["mean", 1.0]
