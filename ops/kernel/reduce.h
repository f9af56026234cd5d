// Reductions over any axes, on the CPU. reduce.cuh has the same for CUDA.
//
// Axes are coalesced first: what is left is one step [outer, reduced, inner] for each run of adjacent reduced axes, and
// nearly always just one. A step is row-wise (inner == 1) or column-wise, and is cut into pieces whose bounds depend on
// its sizes alone; the partial results of pieces are combined in index order. So the result does not depend on the
// number of threads, nor on the instruction set.
//
// A reducer is a struct with
//   using Acc                                  what is accumulated
//   Acc identity() const
//   Acc lift(In x, int64 output, int64 i) const  element i of the run that makes output number `output`
//   Acc combine(Acc, Acc) const                associative and commutative up to rounding
//   using Small; Small small(In, int64, int64); Small add(Small, Small); Acc widen(Small)
//                                              the same for runs of four elements, in a type that is cheaper on a GPU
// and a store is a callable (int64 output, Acc). All are BEVEL_HD.
#pragma once

#include <bevel/core/device.h>
#include <bevel/core/dtype.h>
#include <bevel/core/parallel.h>
#include <bevel/core/shape.h>
#include <bevel/ops/kernel/isa.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace bevel {

struct ReduceStep {
  std::int64_t outer = 1;
  std::int64_t reduced = 1;
  std::int64_t inner = 1;

  BEVEL_HD std::int64_t outputs() const { return outer * inner; }
};

// The steps that reduce the marked axes of `shape`, at least one. Each works on the result of the one before it.
std::vector<ReduceStep> reduce_steps(const Shape& shape, const std::array<bool, Shape::max_rank>& reduced);

// --- reducers ---

// Floating elements are summed in double beyond four elements, integers in 64 bits.
template <class T>
struct SumReducer {
  using Acc = std::conditional_t<is_floating(dtype_of<T>), double, std::int64_t>;
  using Small = std::conditional_t<is_floating(dtype_of<T>), compute_t<T>, std::int64_t>;

  BEVEL_HD Acc identity() const { return 0; }
  BEVEL_HD Acc lift(T x, std::int64_t, std::int64_t) const { return static_cast<Acc>(static_cast<Small>(x)); }
  BEVEL_HD Acc combine(Acc a, Acc b) const { return a + b; }
  BEVEL_HD Small small(T x, std::int64_t, std::int64_t) const { return static_cast<Small>(x); }
  BEVEL_HD Small add(Small a, Small b) const { return a + b; }
  BEVEL_HD Acc widen(Small a) const { return static_cast<Acc>(a); }
};

// Accumulates what `reducer` made of the pieces.
template <class Reducer>
struct CombineReducer {
  using Acc = typename Reducer::Acc;
  using Small = Acc;
  Reducer reducer;

  BEVEL_HD Acc identity() const { return reducer.identity(); }
  BEVEL_HD Acc lift(Acc x, std::int64_t, std::int64_t) const { return x; }
  BEVEL_HD Acc combine(Acc a, Acc b) const { return reducer.combine(a, b); }
  BEVEL_HD Acc small(Acc x, std::int64_t, std::int64_t) const { return x; }
  BEVEL_HD Acc add(Acc a, Acc b) const { return reducer.combine(a, b); }
  BEVEL_HD Acc widen(Acc a) const { return a; }
};

// --- stores ---

// Writes sum / divisor in a floating dtype chosen at run time.
struct FloatStore {
  void* data;
  Dtype dtype;
  double divisor = 1;

  BEVEL_HD void operator()(std::int64_t i, double sum) const {
    const double value = sum / divisor;
    if (dtype == Dtype::f64)
      static_cast<double*>(data)[i] = value;
    else if (dtype == Dtype::f32)
      static_cast<float*>(data)[i] = static_cast<float>(value);
    else if (dtype == Dtype::bf16)
      static_cast<bfloat16*>(data)[i] = bfloat16(static_cast<float>(value));
    else
      static_cast<float16*>(data)[i] = float16(static_cast<float>(value));
  }
};

template <class T>
struct PlainStore {
  T* data;
  template <class Acc>
  BEVEL_HD void operator()(std::int64_t i, Acc value) const {
    data[i] = static_cast<T>(value);
  }
};

// --- the CPU driver ---

namespace detail {

inline constexpr std::int64_t reduce_tile = 16384;  // elements that are worth a turn of a thread
inline constexpr std::int64_t reduce_columns = 256;

// Elements begin <= i < end of one row, in 16 lanes and then a tree.
template <class In, class Reducer>
[[gnu::always_inline]] inline typename Reducer::Acc reduce_row(const In* row, std::int64_t begin, std::int64_t end,
                                                               std::int64_t output, const Reducer& reducer) {
  constexpr int lanes = 16;
  typename Reducer::Acc acc[lanes];
  for (int lane = 0; lane < lanes; ++lane) acc[lane] = reducer.identity();
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes)
    for (int lane = 0; lane < lanes; ++lane)
      acc[lane] = reducer.combine(acc[lane], reducer.lift(row[i + lane], output, i + lane));
  for (int lane = 0; i < end; ++i, ++lane) acc[lane] = reducer.combine(acc[lane], reducer.lift(row[i], output, i));
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) acc[lane] = reducer.combine(acc[lane], acc[lane + width]);
  return acc[0];
}

// The same for `columns` adjacent columns at once; `first` is the element (0, 0) and belongs to output `output`.
template <class In, class Reducer>
[[gnu::always_inline]] inline void reduce_columns_of(const In* first, std::int64_t begin, std::int64_t end,
                                                     std::int64_t inner, std::int64_t columns, std::int64_t output,
                                                     const Reducer& reducer, typename Reducer::Acc* acc) {
  for (std::int64_t j = 0; j < columns; ++j) acc[j] = reducer.identity();
  for (std::int64_t i = begin; i < end; ++i) {
    const In* row = first + i * inner;
    for (std::int64_t j = 0; j < columns; ++j) acc[j] = reducer.combine(acc[j], reducer.lift(row[j], output + j, i));
  }
}

}  // namespace detail

template <class In, class Reducer, class Store>
void reduce(Cpu, const In* in, const ReduceStep& step, const Reducer& reducer, const Store& store) {
  using Acc = typename Reducer::Acc;
  if (step.outputs() == 0) return;
  const std::int64_t width = std::min(step.inner, detail::reduce_columns);
  const std::int64_t blocks = (step.inner + width - 1) / width;
  const std::int64_t piece = std::max<std::int64_t>(detail::reduce_tile / width, 1);
  const std::int64_t pieces = std::max<std::int64_t>((step.reduced + piece - 1) / piece, 1);
  const std::unique_ptr<Acc[]> partials(pieces > 1 ? new Acc[static_cast<std::size_t>(step.outputs() * pieces)]
                                                   : nullptr);

  // A unit is one piece of one block of columns.
  const auto units = [&](std::int64_t first, std::int64_t last) __attribute__((always_inline)) {
    Acc acc[detail::reduce_columns];
    for (std::int64_t unit = first; unit < last; ++unit) {
      const std::int64_t p = unit % pieces;
      const std::int64_t block = unit / pieces % blocks;
      const std::int64_t o = unit / pieces / blocks;
      const std::int64_t column = block * width;
      const std::int64_t columns = std::min(width, step.inner - column);
      const std::int64_t output = o * step.inner + column;
      const std::int64_t begin = p * piece;
      const std::int64_t end = std::min(step.reduced, begin + piece);
      const In* origin = step.reduced > 0 ? in + o * step.reduced * step.inner + column : in;  // in may be null
      if (step.inner == 1)
        acc[0] = detail::reduce_row(origin, begin, end, output, reducer);
      else
        detail::reduce_columns_of(origin, begin, end, step.inner, columns, output, reducer, acc);
      for (std::int64_t j = 0; j < columns; ++j) {
        if (pieces > 1)
          partials[static_cast<std::size_t>((output + j) * pieces + p)] = acc[j];
        else
          store(output + j, acc[j]);
      }
    }
  };
  const std::int64_t unit_elements = std::max<std::int64_t>(std::min(piece, step.reduced) * width, 1);
  const std::int64_t grain = std::max<std::int64_t>(detail::reduce_tile / unit_elements, 1);
  parallel_ranges(step.outer * blocks * pieces, grain, [&](std::int64_t first, std::int64_t last) {
    for_best_isa([&]() __attribute__((always_inline)) { units(first, last); });
  });
  if (pieces == 1) return;
  parallel_ranges(step.outputs(), std::max<std::int64_t>(detail::reduce_tile / pieces, 1),
                  [&](std::int64_t first, std::int64_t last) {
                    for (std::int64_t i = first; i < last; ++i) {
                      const Acc* own = &partials[static_cast<std::size_t>(i * pieces)];
                      Acc acc = own[0];
                      for (std::int64_t p = 1; p < pieces; ++p) acc = reducer.combine(acc, own[p]);
                      store(i, acc);
                    }
                  });
}

}  // namespace bevel
