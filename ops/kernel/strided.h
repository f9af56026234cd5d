// Copies between two arrays with different strides: the one kernel behind every rearrangement of axes.
#pragma once

#include <bevel/core/device.h>
#include <bevel/core/shape.h>

#include <array>
#include <cstdint>

namespace bevel {

// to[sum i_k * to_stride[k]] = from[sum i_k * from_stride[k]] for all 0 <= i_k < size[k]; strides in elements, from
// ones may be 0 or negative. No two elements may be written to one place.
struct StridedCopy {
  int rank = 0;
  std::int64_t size[Shape::max_rank] = {};
  std::int64_t from_stride[Shape::max_rank] = {};
  std::int64_t to_stride[Shape::max_rank] = {};

  std::int64_t numel() const {
    std::int64_t count = 1;
    for (int axis = 0; axis < rank; ++axis) count *= size[axis];
    return count;
  }
  void add(std::int64_t axis_size, std::int64_t from, std::int64_t to) {
    size[rank] = axis_size;
    from_stride[rank] = from;
    to_stride[rank] = to;
    ++rank;
  }
};

// The same copy with as few axes as possible, at least two, ordered for speed: the last is the one written densely, and
// the one before it, where there is such an axis, the one read densely.
StridedCopy coalesced(const StridedCopy& copy);

// Strides of a dense tensor.
std::array<std::int64_t, Shape::max_rank> dense_strides(const Shape& shape);

// `copy` must be coalesced; elements of 1, 2, 4 or 8 bytes.
void copy_strided(Cpu, const StridedCopy& copy, const void* from, void* to, std::int64_t element_bytes);
void copy_strided(Cuda, const StridedCopy& copy, const void* from, void* to, std::int64_t element_bytes);

}  // namespace bevel
