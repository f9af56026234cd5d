// From a loss's public function to the one driver.
#pragma once

#include <bevel/ops/loss/detail/driver.h>
#include <bevel/ops/loss/detail/library_formula.h>

namespace bevel::detail {

// `options` has the fields of LossOptions and more.
template <class F, class Options>
Tensor library_loss(const char* name, const F& formula, const Tensor& input, const Tensor& target,
                    const Options& options) {
  return run_loss(name, LibraryFormula<F>::kernels(formula), input, target,
                  {options.reduction, options.weight, options.scale, options.normalizer, options.fused});
}

}  // namespace bevel::detail
