// Shapes: up to eight sizes, outermost first, stored inline.
#pragma once

#include <bevel/core/error.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

namespace bevel {

class Shape {
 public:
  static constexpr int max_rank = 8;

  Shape() = default;  // rank 0: one element
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  // Error for more than eight axes, a negative size, or an element count beyond 2^62.
  explicit Shape(std::span<const std::int64_t> sizes);

  int rank() const { return rank_; }
  std::int64_t numel() const {
    std::int64_t count = 1;
    for (const std::int64_t size : *this) count *= size;
    return count;
  }

  // Axis 0 is outermost; -1 is the last. No check; see axis().
  std::int64_t operator[](int axis) const { return sizes_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)]; }
  std::int64_t& operator[](int axis) { return sizes_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)]; }

  // `axis` counted from the front, 0 <= result < rank; Error in the name of `function` where it lies outside.
  int axis(int axis, const char* function) const;

  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }

  // Product of the sizes of axes first <= axis < last.
  std::int64_t product(int first, int last) const {
    std::int64_t count = 1;
    for (int axis = first; axis < last; ++axis) count *= (*this)[axis];
    return count;
  }

  // A copy without `axis`, with a new axis in front of `axis`, or with another size there.
  Shape without(int axis) const;
  Shape inserted(int axis, std::int64_t size) const;
  Shape replaced(int axis, std::int64_t size) const;

  friend bool operator==(const Shape& a, const Shape& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

 private:
  std::array<std::int64_t, max_rank> sizes_{};
  int rank_ = 0;
};

// Writes "[2, 3]"; "[]" for rank 0.
std::ostream& operator<<(std::ostream& out, const Shape& shape);

// The shape to which both broadcast by NumPy's rule (sizes aligned at the end, equal or 1); Error naming `function`.
Shape broadcast(const Shape& a, const Shape& b, const char* function);

}  // namespace bevel
