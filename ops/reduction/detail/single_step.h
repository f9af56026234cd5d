// For reductions that need a value for each output while they run: one step whatever the axes.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/kernel/reduce.h>

#include <array>
#include <vector>

namespace bevel::detail {

// x, with the marked axes moved to the end where they are not adjacent, and the one step that reduces them.
struct SingleStep {
  Tensor x;
  ReduceStep step;
  std::vector<int> order;  // the permutation made, empty for none
};

SingleStep single_step(const Tensor& x, const std::array<bool, Shape::max_rank>& mask);

// Undoes the permutation on a tensor shaped like SingleStep::x.
Tensor restore_order(const Tensor& moved, const SingleStep& single);

}  // namespace bevel::detail
