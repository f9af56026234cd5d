// The loops over a formula on the CPU. Everything around them (dtypes, weights, reductions, threads) is compiled once,
// in loss/cpu.cpp.
#pragma once

#include <bevel/ops/kernel/isa.h>
#include <bevel/ops/loss/detail/evaluate.h>
#include <bevel/ops/loss/detail/pass.h>

#include <algorithm>
#include <cstdint>

namespace bevel::detail {

// The loops read the formula from a copy of their own, whose address nobody has: else the compiler would have to read
// its parameters again after each store.
// Numbers that are worked on between two requests for inputs further on. The requests stand within the loops, since a
// tile's worth of them at once would fill the processor's list of pending lines and stop it.
constexpr std::int64_t tile_run = 32;

// Asks for a run of an input that lies `ahead` numbers further on, which may be past its end: a prefetch never faults.
template <class T>
[[gnu::always_inline]] inline void prefetch_run(const T* input, std::int64_t ahead) {
  constexpr std::int64_t line = 64 / sizeof(T);
  for (std::int64_t k = 0; k < tile_run; k += line)
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(input) +
                                                     static_cast<std::uintptr_t>(ahead + k) * sizeof(T)));
}

template <class F, class T>
[[gnu::always_inline]] inline void tile_values(const F& formula, const LossTile<T>& tile) {
  const F f = formula;
  const T* __restrict input = tile.input;
  const T* __restrict target = tile.target;
  T* __restrict value = tile.value;
  const std::int64_t count = tile.count;
  const std::int64_t ahead = tile.ahead;
  for (std::int64_t run = 0; run < count; run += tile_run) {
    prefetch_run(input + run, ahead);
    prefetch_run(target + run, ahead);
    const std::int64_t end = std::min(count, run + tile_run);
    for (std::int64_t i = run; i < end; ++i) value[i] = loss_value(f, Number<T>(input[i]), Number<T>(target[i])).value;
  }
}

template <class F, class T>
[[gnu::always_inline]] inline void tile_d_input(const F& formula, const LossTile<T>& tile) {
  const F f = formula;
  const T* __restrict input = tile.input;
  const T* __restrict target = tile.target;
  T* __restrict value = tile.value;
  T* __restrict d_input = tile.d_input;
  const Number<T> seed = tile.seed;
  const std::int64_t count = tile.count;
  const std::int64_t ahead = tile.ahead;
  for (std::int64_t run = 0; run < count; run += tile_run) {
    prefetch_run(input + run, ahead);
    prefetch_run(target + run, ahead);
    const std::int64_t end = std::min(count, run + tile_run);
    for (std::int64_t i = run; i < end; ++i) {
      const Dual<Number<T>> loss = loss_with_d_input(f, Number<T>(input[i]), Number<T>(target[i]));
      value[i] = loss.value.value;
      d_input[i] = (loss.derivative * seed).value;
    }
  }
}

template <class F, class T>
[[gnu::always_inline]] inline void tile_d_target(const F& formula, const LossTile<T>& tile) {
  const F f = formula;
  const T* __restrict input = tile.input;
  const T* __restrict target = tile.target;
  T* __restrict d_target = tile.d_target;
  const Number<T> seed = tile.seed;
  const std::int64_t count = tile.count;
  for (std::int64_t i = 0; i < count; ++i)
    d_target[i] = (loss_d_target(f, Number<T>(input[i]), Number<T>(target[i])) * seed).value;
}

template <class F, class T>
[[gnu::always_inline]] inline void tile_second(const F& formula, const LossTile<T>& tile) {
  const F f = formula;
  for (std::int64_t i = 0; i < tile.count; ++i) {
    const SecondOrder<T> second =
        loss_second<T>(f, tile.input[i], tile.target[i], tile.direction_input[i], tile.direction_target[i]);
    tile.value[i] = second.slope.value;
    tile.d_input[i] = second.d_input.value;
    tile.d_target[i] = second.d_target.value;
  }
}

template <class T>
[[gnu::always_inline]] inline Row<Number<T>> row_at(const T* data, std::int64_t i) {
  return {{data[4 * i], data[4 * i + 1], data[4 * i + 2], data[4 * i + 3]}};
}

template <class T>
[[gnu::always_inline]] inline void set_row(T* data, std::int64_t i, const Row<Number<T>>& row, Number<T> factor) {
  for (int k = 0; k < 4; ++k) data[4 * i + k] = (row[k] * factor).value;
}

template <class F, class T>
[[gnu::always_inline]] inline void tile_rows(const F& formula, const LossTile<T>& tile) {
  const F f = formula;
  constexpr std::int64_t run = tile_run / 4;
  for (std::int64_t i = 0; i < tile.count; ++i) {
    if (i % run == 0) {
      prefetch_run(tile.input + 4 * i, tile.ahead);
      prefetch_run(tile.target + 4 * i, tile.ahead);
    }
    const Row<Number<T>> input = row_at(tile.input, i);
    const Row<Number<T>> target = row_at(tile.target, i);
    if (tile.direction_input) {
      const RowSecondOrder<T> second =
          row_second<T>(f, input, target, row_at(tile.direction_input, i), row_at(tile.direction_target, i));
      tile.value[i] = second.slope.value;
      set_row(tile.d_input, i, second.d_input, Number<T>(1));
      set_row(tile.d_target, i, second.d_target, Number<T>(1));
    } else if (tile.d_input) {
      const RowLoss<Number<T>> loss = row_with_d_input(f, input, target);
      tile.value[i] = loss.value.value;
      set_row(tile.d_input, i, loss.d_input, Number<T>(tile.seed));
      if (tile.d_target) set_row(tile.d_target, i, row_d_target(f, input, target), Number<T>(tile.seed));
    } else {
      tile.value[i] = f(input, target).value;
    }
  }
}

template <Compiler compiler, class T, class F>
void evaluate_tile(const F& formula, const LossTile<T>& tile) {
  const auto f = formula_in<T>(formula);
  if constexpr (RowFormula<F>) {
    for_best_isa([&]() __attribute__((always_inline)) { tile_rows(f, tile); });
  } else {
    if (tile.direction_input) return tile_second(f, tile);
    for_best_isa([&]() __attribute__((always_inline)) {
      if (tile.d_input)
        tile_d_input(f, tile);
      else
        tile_values(f, tile);
      if constexpr (!ErrorFormula<F>)
        if (tile.d_target) tile_d_target(f, tile);
    });
  }
}

}  // namespace bevel::detail
