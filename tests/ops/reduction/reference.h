// Reductions by plain loops in double, to test against.
#pragma once

#include <testing.h>

#include <functional>
#include <utility>
#include <vector>

namespace bevel::testing {

// f(the elements that are reduced to one, in order) for every output. No axes: all of them.
inline std::vector<double> reference_reduce(const Tensor& x, const std::vector<int>& axes,
                                            const std::function<double(const std::vector<double>&)>& f) {
  const Shape shape = x.shape();
  std::vector<bool> reduced(static_cast<std::size_t>(shape.rank()), axes.empty());
  for (const int axis : axes) reduced[static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis)] = true;
  std::int64_t outputs = 1;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (!reduced[static_cast<std::size_t>(axis)]) outputs *= shape[axis];
  std::vector<std::vector<double>> groups(static_cast<std::size_t>(outputs));
  const std::vector<double> values = x.to_vector();
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t group = 0;
    std::int64_t stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (!reduced[static_cast<std::size_t>(axis)]) {
        group += rest % shape[axis] * stride;
        stride *= shape[axis];
      }
      rest /= shape[axis];
    }
    groups[static_cast<std::size_t>(group)].push_back(values[i]);
  }
  std::vector<double> result;
  for (const auto& group : groups) result.push_back(f(group));
  return result;
}

struct ReduceCase {
  Shape shape;
  std::vector<int> axes;
};

// Odd sizes, axes of size 1, rank 0 and 8, nothing, rows and columns beyond a piece, runs that alternate.
inline std::vector<ReduceCase> reduce_cases() {
  return {{{}, {}},
          {{1}, {0}},
          {{7}, {}},
          {{5, 3}, {0}},
          {{5, 3}, {1}},
          {{5, 3}, {-1, 0}},
          {{3, 1, 5}, {1}},
          {{1, 4, 1}, {0, 2}},
          {{4, 5, 6}, {0, 2}},
          {{4, 5, 6}, {1}},
          {{2, 3, 4, 5}, {0, 2, 3}},
          {{2, 3, 2, 3, 2, 1, 2, 3}, {0, 2, 4, 6}},
          {{2, 3, 2, 3, 2, 1, 2, 3}, {1, 3, 5, 7}},
          {{3, 40000}, {1}},
          {{40000, 3}, {0}},
          {{2, 700, 300}, {1}},
          {{300, 129}, {0}},
          {{2, 1025, 33}, {0, 1}},
          {{513, 1025}, {}},
          {{1000, 2}, {1}},
          {{0, 3}, {0}},
          {{3, 0}, {0}},
          {{0}, {}},
          {{2, 0, 3}, {0, 1}}};
}

}  // namespace bevel::testing
