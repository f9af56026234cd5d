#include <bevel/ops/reduction/axes.h>

namespace bevel {

std::array<bool, Shape::max_rank> Axes::mask(const Shape& shape, const char* function) const {
  std::array<bool, Shape::max_rank> marked{};
  if (list_.empty()) marked.fill(true);
  for (const int axis : list_) {
    bool& mark = marked[static_cast<std::size_t>(shape.axis(axis, function))];
    require(!mark, function, ": axis ", axis, " of shape ", shape, " is listed twice");
    mark = true;
  }
  return marked;
}

namespace detail {

Shape reduced_shape(const Shape& shape, const std::array<bool, Shape::max_rank>& mask, bool keepdim) {
  std::vector<std::int64_t> sizes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!mask[static_cast<std::size_t>(axis)])
      sizes.push_back(shape[axis]);
    else if (keepdim)
      sizes.push_back(1);
  }
  return Shape(std::span<const std::int64_t>(sizes));
}

std::int64_t reduced_count(const Shape& shape, const std::array<bool, Shape::max_rank>& mask) {
  std::int64_t count = 1;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (mask[static_cast<std::size_t>(axis)]) count *= shape[axis];
  return count;
}

}  // namespace detail

}  // namespace bevel
