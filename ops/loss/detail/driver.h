// The one driver: checks, choice between fused and unfused, autograd. It knows a formula by its LossKernels only.
#pragma once

#include <bevel/core/device.h>
#include <bevel/ops/loss/detail/loss_kernels.h>
#include <bevel/ops/loss/options.h>
#include <bevel/ops/loss/raw.h>

#include <memory>

namespace bevel::detail {

// The loss `name` (a string literal) of input and target; contract in options.h and smooth_l1.h.
Tensor run_loss(const char* name, std::shared_ptr<const LossKernels> kernels, const Tensor& input, const Tensor& target,
                const LossOptions& options);

// One pass; on CUDA, on the current stream.
void run_pass(Cuda backend, const LossKernels& kernels, const LossPass& pass);

using raw::scale_gradient;
void scale_gradient(Cuda backend, const raw::GradientScale& scale);

}  // namespace bevel::detail
