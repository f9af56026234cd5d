#include <bevel/ops/kernel/reduce.h>

namespace bevel {

std::vector<ReduceStep> reduce_steps(const Shape& shape, const std::array<bool, Shape::max_rank>& reduced) {
  // Runs of adjacent axes of one kind, outermost first; axes of size 1 belong to any run.
  struct Run {
    std::int64_t size;
    bool reduced;
  };
  std::vector<Run> runs;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool kind = reduced[static_cast<std::size_t>(axis)];
    if (shape[axis] == 1) continue;
    if (!runs.empty() && runs.back().reduced == kind)
      runs.back().size *= shape[axis];
    else
      runs.push_back({shape[axis], kind});
  }

  std::vector<ReduceStep> steps;
  // Innermost run first: the most adjacent elements shrink the data at once.
  for (std::size_t i = runs.size(); i-- > 0;) {
    if (!runs[i].reduced) continue;
    ReduceStep step{1, runs[i].size, 1};
    for (std::size_t j = 0; j < i; ++j) step.outer *= runs[j].size;
    for (std::size_t j = i + 1; j < runs.size(); ++j)
      if (!runs[j].reduced) step.inner *= runs[j].size;
    steps.push_back(step);
  }
  if (steps.empty()) steps.push_back({1, 1, shape.numel()});
  return steps;
}

}  // namespace bevel
