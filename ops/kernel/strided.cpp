#include <bevel/core/parallel.h>
#include <bevel/ops/kernel/strided.h>
#include <bevel/ops/kernel/width.h>

#include <algorithm>
#include <cstring>

namespace bevel {

std::array<std::int64_t, Shape::max_rank> dense_strides(const Shape& shape) {
  std::array<std::int64_t, Shape::max_rank> strides{};
  std::int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

namespace {

void move_axis(StridedCopy& copy, int from, int to) {
  const auto rotate = [&](std::int64_t* values) {
    if (from < to)
      std::rotate(values + from, values + from + 1, values + to + 1);
    else
      std::rotate(values + to, values + from, values + from + 1);
  };
  rotate(copy.size);
  rotate(copy.from_stride);
  rotate(copy.to_stride);
}

}  // namespace

StridedCopy coalesced(const StridedCopy& copy) {
  StridedCopy merged;
  for (int axis = 0; axis < copy.rank; ++axis) {
    const std::int64_t size = copy.size[axis];
    if (size == 1) continue;
    const int last = merged.rank - 1;
    if (last >= 0 && merged.from_stride[last] == copy.from_stride[axis] * size &&
        merged.to_stride[last] == copy.to_stride[axis] * size) {
      merged.size[last] *= size;
      merged.from_stride[last] = copy.from_stride[axis];
      merged.to_stride[last] = copy.to_stride[axis];
    } else {
      merged.add(size, copy.from_stride[axis], copy.to_stride[axis]);
    }
  }
  while (merged.rank < 2) {
    merged.add(1, 0, 0);
    move_axis(merged, merged.rank - 1, 0);
  }
  const int last = merged.rank - 1;
  int written = last;
  for (int axis = 0; axis <= last; ++axis)
    if (merged.to_stride[axis] == 1) written = axis;
  move_axis(merged, written, last);
  if (merged.from_stride[last] == 1) return merged;
  for (int axis = 0; axis < last; ++axis)
    if (merged.from_stride[axis] == 1) {
      move_axis(merged, axis, last - 1);
      break;
    }
  return merged;
}

namespace {

// Rows a of the plane made by the last two axes, elements b of each.
template <class T>
void copy_plane(const StridedCopy& copy, const T* from, T* to, std::int64_t a_size, std::int64_t b_size) {
  const int b_axis = copy.rank - 1;
  const int a_axis = copy.rank - 2;
  const std::int64_t from_a = copy.from_stride[a_axis];
  const std::int64_t to_a = copy.to_stride[a_axis];
  const std::int64_t from_b = copy.from_stride[b_axis];
  const std::int64_t to_b = copy.to_stride[b_axis];
  if (from_a == 1 && from_b != 1) {  // a transposition: read densely, since the rows written stay in cache
    for (std::int64_t b = 0; b < b_size; ++b)
      for (std::int64_t a = 0; a < a_size; ++a) to[a * to_a + b * to_b] = from[a + b * from_b];
    return;
  }
  for (std::int64_t a = 0; a < a_size; ++a) {
    const T* source = from + a * from_a;
    T* target = to + a * to_a;
    if (to_b == 1 && from_b == 1)
      std::memcpy(target, source, static_cast<std::size_t>(b_size) * sizeof(T));
    else if (to_b == 1 && from_b == 0)
      std::fill_n(target, b_size, *source);
    else
      for (std::int64_t b = 0; b < b_size; ++b) target[b * to_b] = source[b * from_b];
  }
}

template <class T>
void copy_typed(const StridedCopy& copy, const T* from, T* to) {
  const int b_axis = copy.rank - 1;
  const int a_axis = copy.rank - 2;
  const std::int64_t a_size = copy.size[a_axis];
  const std::int64_t b_size = copy.size[b_axis];
  const bool transposed = copy.from_stride[a_axis] == 1 && copy.from_stride[b_axis] != 1;
  const std::int64_t b_tile = std::min<std::int64_t>(b_size, transposed ? 512 : 16384);
  const std::int64_t a_tile = std::min(a_size, std::max<std::int64_t>(16384 / b_tile, 1));
  const std::int64_t a_tiles = (a_size + a_tile - 1) / a_tile;
  const std::int64_t b_tiles = (b_size + b_tile - 1) / b_tile;
  const std::int64_t planes = copy.numel() / (a_size * b_size);
  const std::int64_t grain = std::max<std::int64_t>(16384 / (a_tile * b_tile), 1);
  parallel_ranges(planes * a_tiles * b_tiles, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t tile = first; tile < last; ++tile) {
      const std::int64_t b = tile % b_tiles * b_tile;
      const std::int64_t a = tile / b_tiles % a_tiles * a_tile;
      std::int64_t from_offset = a * copy.from_stride[a_axis] + b * copy.from_stride[b_axis];
      std::int64_t to_offset = a * copy.to_stride[a_axis] + b * copy.to_stride[b_axis];
      std::int64_t rest = tile / b_tiles / a_tiles;
      for (int axis = a_axis - 1; axis >= 0; --axis) {
        const std::int64_t i = rest % copy.size[axis];
        rest /= copy.size[axis];
        from_offset += i * copy.from_stride[axis];
        to_offset += i * copy.to_stride[axis];
      }
      copy_plane(copy, from + from_offset, to + to_offset, std::min(a_tile, a_size - a), std::min(b_tile, b_size - b));
    }
  });
}

}  // namespace

void copy_strided(Cpu, const StridedCopy& copy, const void* from, void* to, std::int64_t element_bytes) {
  if (copy.numel() == 0) return;
  kernel::visit_width(element_bytes,
                      [&]<class T>(T) { copy_typed(copy, static_cast<const T*>(from), static_cast<T*>(to)); });
}

}  // namespace bevel
