// Which axes a reduction works on.
#pragma once

#include <bevel/core/shape.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace bevel {

// A list of axes, written as 1, {0, 2} or {}; negative ones count from the end. An empty list means all axes.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : list_{axis} {}
  Axes(std::initializer_list<int> axes) : list_(axes) {}
  Axes(std::vector<int> axes) : list_(std::move(axes)) {}

  // Marks the axes of `shape` that are meant. Error in the name of `function` for an axis that does not exist or is
  // listed twice.
  std::array<bool, Shape::max_rank> mask(const Shape& shape, const char* function) const;

 private:
  std::vector<int> list_;
};

namespace detail {

// The shape that is left when the marked axes are reduced: with size 1 there, or without them.
Shape reduced_shape(const Shape& shape, const std::array<bool, Shape::max_rank>& mask, bool keepdim);

// Product of the sizes of the marked axes.
std::int64_t reduced_count(const Shape& shape, const std::array<bool, Shape::max_rank>& mask);

}  // namespace detail

}  // namespace bevel
