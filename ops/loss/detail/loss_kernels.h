// What the driver of the losses asks of a formula: one pass over the elements, on one device.
#pragma once

#include <bevel/core/device.h>
#include <bevel/ops/loss/detail/pass.h>
#include <bevel/ops/raw.h>

namespace bevel::detail {

// A formula with its kernels.
class LossKernels {
 public:
  LossKernels() = default;
  LossKernels(const LossKernels&) = delete;
  LossKernels& operator=(const LossKernels&) = delete;
  virtual ~LossKernels() = default;

  // Adjacent numbers that make up an element: 1, or 4 for formulas of rows.
  virtual int width() const = 0;
  // Whether the loss depends on input - target alone.
  virtual bool of_error() const = 0;
  virtual void evaluate(const LossTile<float>& tile) const = 0;
  virtual void evaluate(const LossTile<double>& tile) const = 0;
  // The device of the stream is current.
  virtual void launch(const raw::OnStream& where, const LossPass& pass) const = 0;
};

// One pass on the CPU. Results do not depend on the number of threads.
void run_pass(Cpu, const LossKernels& kernels, const LossPass& pass);

}  // namespace bevel::detail
