// The inner loops of the convolution on one CPU thread, compiled for each instruction set. Both are matrix products
// that read one operand where it lies in the picture, so that nothing is unfolded into columns.
#pragma once

#include <cstdint>

namespace bevel::detail {

// Channels of the result are computed in blocks of two vectors of 32 bytes; the last block is one where that suffices.
template <class T>
inline constexpr std::int64_t conv_lanes = 32 / static_cast<std::int64_t>(sizeof(T));
template <class T>
inline constexpr std::int64_t conv_block = 2 * conv_lanes<T>;

// Consecutive elements of the source under one or several neighbouring taps.
struct ConvRun {
  std::int64_t offset, length;
};

// result[p, :] = bias + sum over runs and l of source[p * source_step + run.offset + l] * panel[row, :], where the rows
// of the panel are numbered through all runs. One row of `pixels` pixels, one block of `columns` channels.
template <class T>
struct ConvStrip {
  const T* source;
  std::int64_t source_step;
  const ConvRun* runs;
  std::int64_t run_count;
  const T* panel;  // [sum of run lengths, conv_lanes or conv_block], zeros beyond `columns`
  const T* bias;   // conv_block elements
  T* result;
  std::int64_t result_step;
  std::int64_t pixels, columns;
};

// sum[m, :] += sum over pixels (r, c) of source[r, c][m] * gradient[r, c][:], for `length` values of m.
template <class T>
struct ConvOuter {
  const T* source;
  std::int64_t source_row, source_step;  // between rows and pixels
  const T* gradient;                     // readable in whole vectors
  std::int64_t gradient_row, gradient_step;
  std::int64_t rows, columns;  // pixels
  T* sum;
  std::int64_t sum_row, length;
  std::int64_t lanes;  // of the block: conv_lanes or conv_block
};

namespace baseline {
void conv_strip(const ConvStrip<float>& strip);
void conv_strip(const ConvStrip<double>& strip);
void conv_outer(const ConvOuter<float>& outer);
void conv_outer(const ConvOuter<double>& outer);
}  // namespace baseline

namespace x86_64_v3 {
void conv_strip(const ConvStrip<float>& strip);
void conv_strip(const ConvStrip<double>& strip);
void conv_outer(const ConvOuter<float>& outer);
void conv_outer(const ConvOuter<double>& outer);
}  // namespace x86_64_v3

}  // namespace bevel::detail
