// A window of a picture as the inner loops of the CPU read it: where it leaves the picture, a copy padded with zeros.
#pragma once

#include <bevel/core/memory.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace bevel::detail {

template <class T>
struct Picture {
  const T* data;  // [height, width, channels]
  std::int64_t height, width, channels;
};

// Rows first_row <= r < end_row and columns likewise, numbered as in the picture; they may lie outside it.
struct WindowBounds {
  std::int64_t first_row, end_row, first_column, end_column;
};

// Gives the window's first element; `row_stride` is between its rows. Reuses `scratch` where it has to copy.
template <class T>
const T* window(const Picture<T>& picture, const WindowBounds& w, std::shared_ptr<Buffer>& scratch,
                std::int64_t& row_stride) {
  const std::int64_t c = picture.channels;
  if (w.first_row >= 0 && w.end_row <= picture.height && w.first_column >= 0 && w.end_column <= picture.width) {
    row_stride = picture.width * c;
    return picture.data + (w.first_row * picture.width + w.first_column) * c;
  }
  const std::int64_t columns = w.end_column - w.first_column;
  row_stride = columns * c;
  const auto bytes = static_cast<std::size_t>((w.end_row - w.first_row) * row_stride) * sizeof(T);
  if (!scratch || scratch->bytes() < bytes) scratch = Buffer::allocate(bytes, cpu);
  T* const copy = static_cast<T*>(scratch->data());
  // Window columns that lie in the picture: left <= column < right.
  const std::int64_t left = std::clamp<std::int64_t>(-w.first_column, 0, columns);
  const std::int64_t right = std::clamp<std::int64_t>(picture.width - w.first_column, left, columns);
  for (std::int64_t r = w.first_row; r < w.end_row; ++r) {
    T* const to = copy + (r - w.first_row) * row_stride;
    if (r < 0 || r >= picture.height) {
      std::fill_n(to, row_stride, T(0));
      continue;
    }
    std::fill(to, to + left * c, T(0));
    const T* const from = picture.data + (r * picture.width + w.first_column + left) * c;
    std::copy(from, from + (right - left) * c, to + left * c);
    std::fill(to + right * c, to + row_stride, T(0));
  }
  return copy;
}

}  // namespace bevel::detail
