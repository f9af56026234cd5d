// The library's formulas as its functions and the kernel-level ones reach them.
#pragma once

#include <bevel/core/device.h>
#include <bevel/ops/loss/pass.h>
#include <bevel/ops/raw.h>

#include <memory>

namespace bevel::detail {

class LossKernels;

// Instantiated in loss/library.cpp for each formula.
template <class F>
struct LibraryFormula {
  static std::shared_ptr<const LossKernels> kernels(const F& formula);
  static void run(Cpu backend, const F& formula, const raw::LossPass& pass);
  static void run(const raw::OnStream& where, const F& formula, const raw::LossPass& pass);
};

}  // namespace bevel::detail
