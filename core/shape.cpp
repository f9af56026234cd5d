#include <bevel/core/shape.h>

namespace bevel {

Shape::Shape(std::span<const std::int64_t> sizes) {
  require(sizes.size() <= max_rank, "Shape: at most ", max_rank, " axes are possible; got ", sizes.size());
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) {
    require(size >= 0, "Shape: a size must not be negative; got ", size, " for axis ", rank_);
    require(!__builtin_mul_overflow(count, std::max<std::int64_t>(size, 1), &count) && count <= (std::int64_t{1} << 62),
            "Shape: more than 2^62 elements");
    sizes_[static_cast<std::size_t>(rank_++)] = size;
  }
}

int Shape::axis(int axis, const char* function) const {
  require(axis >= -rank_ && axis < rank_, function, ": axis ", axis, " does not exist in shape ", *this);
  return axis < 0 ? axis + rank_ : axis;
}

Shape Shape::without(int axis) const {
  Shape result;
  for (int i = 0; i < rank_; ++i)
    if (i != axis) result.sizes_[static_cast<std::size_t>(result.rank_++)] = (*this)[i];
  return result;
}

Shape Shape::inserted(int axis, std::int64_t size) const {
  require(rank_ < max_rank, "Shape: at most ", max_rank, " axes are possible; ", *this, " has no room for one more");
  Shape result = *this;
  result.rank_ = rank_ + 1;
  for (int i = rank_; i > axis; --i) result[i] = (*this)[i - 1];
  result[axis] = size;
  return result;
}

Shape Shape::replaced(int axis, std::int64_t size) const {
  Shape result = *this;
  result[axis] = size;
  return result;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int i = 0; i < shape.rank(); ++i) out << (i ? ", " : "") << shape[i];
  return out << ']';
}

Shape broadcast(const Shape& a, const Shape& b, const char* function) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  const int offset = longer.rank() - shorter.rank();
  Shape result = longer;
  for (int i = 0; i < shorter.rank(); ++i) {
    const std::int64_t x = longer[i + offset];
    const std::int64_t y = shorter[i];
    require(x == y || x == 1 || y == 1, function, ": shapes ", a, " and ", b, " do not broadcast (sizes ", x, " and ",
            y, ")");
    result[i + offset] = x == 1 ? y : x;
  }
  return result;
}

}  // namespace bevel
