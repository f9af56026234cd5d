// The sum that the forward pass and the gradient with respect to the input share on the CPU.
#pragma once

#include <bevel/ops/conv2d/detail/window.h>

#include <vector>

namespace bevel::detail {

// A tap reads the source at (row, column) from the window's corner and has matrix `index` of the weights.
struct Tap {
  std::int64_t row, column, index;
};

// result[n, i, j, g*out + o] = bias[g*out + o]
//     + sum over taps and l of source[n, i*step_h + tap.row, j*step_w + tap.column, g*in + l] * weight(g, tap.index, l,
//     o)
// with 0 outside the source. Steps through the result and the weights are free, so that transposed weights and every
// second pixel of a picture need no copy.
template <class T>
struct Correlation {
  const T* source;
  std::int64_t batch, height, width, groups, in, out;  // in, out: channels of a group
  std::int64_t step_h, step_w;
  std::vector<Tap> taps;  // sorted by row, then column

  const T* weight;
  std::int64_t weight_group, weight_tap, weight_in, weight_out;  // strides
  const T* bias;                                                 // null: none

  T* result;
  std::int64_t rows, columns;
  std::int64_t result_picture, result_row, result_pixel;  // strides
};

void correlate(const Correlation<float>& c);
void correlate(const Correlation<double>& c);

}  // namespace bevel::detail
