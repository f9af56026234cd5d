// Loops of CPU kernels over one sample, for sources that are compiled for each instruction set (*.isa.cpp).
//
// A sample is cut into slices, each a stack of rows of at most 128 lanes; lane l always belongs to the same channel,
// l % period. Both layouts become the same loops: in NHWC a row is the channels of several pixels, in NCHW a run of one
// channel's pixels. Sums run down the lanes in the compute type over 32 rows (which stay in the first-level cache),
// then go into double: a fixed order, whatever the width of the vectors.
#pragma once

#include <bevel/core/hostdevice.h>
#include <bevel/ops/evonorm/detail/problem.h>

#include <algorithm>
#include <utility>

namespace bevel::evo::BEVEL_ISA {

inline constexpr std::int64_t max_lanes = 128;
inline constexpr std::int64_t chunk_rows = 32;

struct Slice {
  std::int64_t offset;  // of the first element in the sample
  std::int64_t rows;    // of `lanes` elements, `stride` apart
  std::int64_t stride;
  std::int64_t lanes;
  std::int64_t tail;     // elements of one more, shorter row
  std::int64_t channel;  // of lane 0
  std::int64_t period;   // channels of the slice
};

inline std::int64_t slice_count(const Problem& p) {
  return p.layout == Layout::nchw ? p.channels : (p.channels + max_lanes - 1) / max_lanes;
}

inline Slice slice(const Problem& p, std::int64_t index) {
  if (p.layout == Layout::nchw) {
    const std::int64_t lanes = std::min(p.pixels, max_lanes);
    return {index * p.pixels, p.pixels / lanes, lanes, lanes, p.pixels % lanes, index, 1};
  }
  if (p.channels > max_lanes) {
    const std::int64_t first = index * max_lanes;
    const std::int64_t lanes = std::min(max_lanes, p.channels - first);
    return {first, p.pixels, p.channels, lanes, 0, first, lanes};
  }
  const std::int64_t pixels = std::min(p.pixels, max_lanes / p.channels);
  const std::int64_t lanes = pixels * p.channels;
  return {0, p.pixels / pixels, lanes, lanes, p.pixels % pixels * p.channels, 0, p.channels};
}

// Coefficients of the lanes, from a table of those of the channels.
template <class Formula, class A>
struct LaneTable {
  A value[Formula::coefficients][max_lanes];

  LaneTable(const Problem& p, const Slice& s, const double* coefficients) {
    for (int k = 0; k < Formula::coefficients; ++k) {
      const double* row = coefficients + k * p.channels + s.channel;
      for (std::int64_t l = 0; l < s.lanes; l += s.period)
        for (std::int64_t c = 0; c < s.period; ++c) value[k][l + c] = static_cast<A>(row[c]);
    }
  }

  BEVEL_HD Formula at(std::int64_t lane) const {
    return [&]<std::size_t... k>(std::index_sequence<k...>) __attribute__((always_inline)) {
      return Formula{value[k][lane]...};
    }(std::make_index_sequence<static_cast<std::size_t>(Formula::coefficients)>());
  }
};

// Zeros where there are lanes: for small slices clearing all would take longer than the work.
template <class A, int K>
void clear(A (&rows)[K][max_lanes], std::int64_t lanes) {
  for (auto& row : rows) std::fill_n(row, lanes, A(0));
}

// Calls row(offset, lanes) for every row of the slice, the tail included.
template <class F>
void for_rows(const Slice& s, const F& row) {
  for (std::int64_t r = 0; r < s.rows; ++r) row(s.offset + r * s.stride, s.lanes);
  if (s.tail > 0) row(s.offset + s.rows * s.stride, s.tail);
}

// Calls chunk(offset, rows, lanes) for runs of at most chunk_rows rows.
template <class F>
void for_chunks(const Slice& s, const F& chunk) {
  for (std::int64_t r = 0; r < s.rows; r += chunk_rows)
    chunk(s.offset + r * s.stride, std::min(chunk_rows, s.rows - r), s.lanes);
  if (s.tail > 0) chunk(s.offset + s.rows * s.stride, std::int64_t{1}, s.tail);
}

template <class Formula, class T>
void map(const Problem& p, const T* x, T* y, const double* coefficients) {
  using A = compute_t<T>;
  for (std::int64_t i = 0; i < slice_count(p); ++i) {
    const Slice s = slice(p, i);
    const LaneTable<Formula, A> table(p, s, coefficients);
    for_rows(s, [&](std::int64_t offset, std::int64_t lanes) {
      const T* from = x + offset;
      T* __restrict to = y + offset;
      for (std::int64_t l = 0; l < lanes; ++l) to[l] = static_cast<T>(table.at(l)(static_cast<A>(from[l])));
    });
  }
}

template <class Formula, class T>
void map(const Problem& p, const T* x, const T* dy, T* dx, const double* coefficients) {
  using A = compute_t<T>;
  for (std::int64_t i = 0; i < slice_count(p); ++i) {
    const Slice s = slice(p, i);
    const LaneTable<Formula, A> table(p, s, coefficients);
    for_rows(s, [&](std::int64_t offset, std::int64_t lanes) {
      const T* from = x + offset;
      const T* upstream = dy + offset;
      T* __restrict to = dx + offset;
      for (std::int64_t l = 0; l < lanes; ++l)
        to[l] = static_cast<T>(table.at(l)(static_cast<A>(from[l]), static_cast<A>(upstream[l])));
    });
  }
}

template <class Formula, class T>
void reduce(const Problem& p, const T* x, const T* dy, const double* coefficients, double* sums) {
  using A = compute_t<T>;
  constexpr int count = Formula::sums;
  for (std::int64_t i = 0; i < slice_count(p); ++i) {
    const Slice s = slice(p, i);
    const LaneTable<Formula, A> table(p, s, coefficients);
    double total[count][max_lanes];
    clear(total, s.lanes);
    for_chunks(s, [&](std::int64_t offset, std::int64_t rows, std::int64_t lanes) {
      A sum[count][max_lanes];
      clear(sum, lanes);
      for (std::int64_t r = 0; r < rows; ++r) {
        const T* from = x + offset + r * s.stride;
        const T* upstream = dy + offset + r * s.stride;
        for (std::int64_t l = 0; l < lanes; ++l) {
          A term[count];
          table.at(l)(static_cast<A>(from[l]), static_cast<A>(upstream[l]), term);
          for (int k = 0; k < count; ++k) sum[k][l] += term[k];
        }
      }
      for (int k = 0; k < count; ++k)
        for (std::int64_t l = 0; l < lanes; ++l) total[k][l] += static_cast<double>(sum[k][l]);
    });
    for (int k = 0; k < count; ++k)
      for (std::int64_t c = 0; c < s.period; ++c) {
        double sum = 0;
        for (std::int64_t l = c; l < s.lanes; l += s.period) sum += total[k][l];
        sums[k * p.channels + s.channel + c] = sum;
      }
  }
}

// Mean and sum of squared deviations of `count` values, merged by Chan's formula.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  BEVEL_HD void merge(double other_count, double other_mean, double other_squares) {
    const double sum = count + other_count;
    const double delta = other_mean - mean;
    mean += delta * (other_count / sum);
    squares += other_squares + delta * delta * (count * other_count / sum);
    count = sum;
  }
};

// Two passes over a chunk, the second from the first-level cache.
template <class T>
void chunk_moments(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t lanes, double* mean,
                   double* squares) {
  using A = compute_t<T>;
  A rows_of[3][max_lanes];
  clear(rows_of, lanes);
  auto& [centre, sum, square] = rows_of;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t l = 0; l < lanes; ++l) centre[l] += static_cast<A>(x[r * stride + l]);
  for (std::int64_t l = 0; l < lanes; ++l) centre[l] /= static_cast<A>(rows);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t l = 0; l < lanes; ++l) {
      const A difference = static_cast<A>(x[r * stride + l]) - centre[l];
      sum[l] += difference;
      square[l] += difference * difference;
    }
  const double count = static_cast<double>(rows);
  for (std::int64_t l = 0; l < lanes; ++l) {  // `centre` was rounded: what is left of the mean is in `sum`
    const double rest = static_cast<double>(sum[l]) / count;
    mean[l] = static_cast<double>(centre[l]) + rest;
    const double squared = static_cast<double>(square[l]) - rest * rest * count;
    squares[l] = squared < 0 ? 0 : squared;  // NaN stays
  }
}

template <class T>
void moments(const Problem& p, const T* x, double* result) {
  for (std::int64_t i = 0; i < slice_count(p); ++i) {
    const Slice s = slice(p, i);
    double merged[2][max_lanes];
    clear(merged, s.lanes);
    auto& [mean, squares] = merged;
    for_chunks(s, [&](std::int64_t offset, std::int64_t rows, std::int64_t lanes) {
      double new_mean[max_lanes], new_squares[max_lanes];
      chunk_moments(x + offset, rows, s.stride, lanes, new_mean, new_squares);
      const double before = static_cast<double>((offset - s.offset) / s.stride);  // rows merged so far
      const double count = static_cast<double>(rows);
      const double share = count / (before + count);
      for (std::int64_t l = 0; l < lanes; ++l) {
        const double delta = new_mean[l] - mean[l];
        mean[l] += delta * share;
        squares[l] += new_squares[l] + delta * delta * (before * share);
      }
    });
    for (std::int64_t c = 0; c < s.period; ++c) {
      Moments all;
      for (std::int64_t l = c; l < s.lanes; l += s.period)
        all.merge(static_cast<double>(s.rows + (l < s.tail ? 1 : 0)), mean[l], squares[l]);
      result[s.channel + c] = all.mean;
      result[p.channels + s.channel + c] = all.squares;
    }
  }
}

}  // namespace bevel::evo::BEVEL_ISA
