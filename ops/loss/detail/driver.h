// The one driver: checks, choice between fused and unfused, autograd. It knows a formula by its LossKernels only.
#pragma once

#include <bevel/ops/loss/detail/pass.h>
#include <bevel/ops/loss/options.h>

#include <memory>

namespace bevel::detail {

// The loss `name` (a string literal) of input and target; contract in options.h and smooth_l1.h.
Tensor run_loss(const char* name, std::shared_ptr<const LossKernels> kernels, const Tensor& input, const Tensor& target,
                const LossOptions& options);

// One pass on the CPU. Results do not depend on the number of threads.
void run_pass(Cpu, const LossKernels& kernels, const LossPass& pass);
void run_pass(Cuda backend, const LossKernels& kernels, const LossPass& pass);

// to[i] = from[i] · factor, where `factor` is one number of the compute type; in place where both are the same.
void scale_gradient(Cpu, const Tensor& from, const Tensor& factor, const Tensor& to);
void scale_gradient(Cuda backend, const Tensor& from, const Tensor& factor, const Tensor& to);

}  // namespace bevel::detail
