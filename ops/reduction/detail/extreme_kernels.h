// The extreme and variance steps for either backend; included once by g++ and once by nvcc.
#pragma once

#include <bevel/ops/reduction/detail/kernels.h>

#include <limits>

namespace bevel::detail {

template <class V>
BEVEL_HD V worst_value(bool minimum) {
  if constexpr (is_floating(dtype_of<V>))
    return minimum ? std::numeric_limits<V>::infinity() : -std::numeric_limits<V>::infinity();
  else
    return minimum ? std::numeric_limits<V>::max() : std::numeric_limits<V>::lowest();
}

// The greatest or least element; a NaN beats all.
template <class T>
struct ExtremeReducer {
  using Acc = compute_t<T>;
  using Small = Acc;
  bool minimum;

  BEVEL_HD Acc identity() const { return worst_value<Acc>(minimum); }
  BEVEL_HD Acc lift(T x, std::int64_t, std::int64_t) const { return static_cast<Acc>(x); }
  BEVEL_HD Acc combine(Acc a, Acc b) const { return ((minimum ? a <= b : a >= b) | (a != a)) ? a : b; }
  BEVEL_HD Small small(T x, std::int64_t, std::int64_t) const { return static_cast<Acc>(x); }
  BEVEL_HD Small add(Small a, Small b) const { return combine(a, b); }
  BEVEL_HD Acc widen(Small a) const { return a; }
};

template <class V>
struct Place {
  V value;
  std::int64_t index;
};

// The first place of the extreme element, or of the first NaN.
template <class T>
struct ArgExtremeReducer {
  using V = compute_t<T>;
  using Acc = Place<V>;
  using Small = Acc;
  bool minimum;

  BEVEL_HD Acc identity() const { return {worst_value<V>(minimum), std::numeric_limits<std::int64_t>::max()}; }
  BEVEL_HD Acc lift(T x, std::int64_t, std::int64_t i) const { return {static_cast<V>(x), i}; }
  BEVEL_HD Acc combine(Acc a, Acc b) const {
    const bool a_nan = a.value != a.value;
    const bool b_nan = b.value != b.value;
    if (a.value == b.value || (a_nan && b_nan)) return a.index < b.index ? a : b;
    return a_nan || (!b_nan && (minimum ? a.value < b.value : a.value > b.value)) ? a : b;
  }
  BEVEL_HD Small small(T x, std::int64_t output, std::int64_t i) const { return lift(x, output, i); }
  BEVEL_HD Small add(Small a, Small b) const { return combine(a, b); }
  BEVEL_HD Acc widen(Small a) const { return a; }
};

struct IndexStore {
  std::int64_t* data;
  template <class V>
  BEVEL_HD void operator()(std::int64_t i, Place<V> place) const {
    data[i] = place.index;
  }
};

template <class V>
BEVEL_HD bool ties(V a, V b) {
  return a == b || (a != a && b != b);
}

// How many elements equal the extreme one.
template <class T>
struct TieReducer {
  using Acc = std::int64_t;
  using Small = std::int64_t;
  const T* extreme;

  BEVEL_HD Acc identity() const { return 0; }
  BEVEL_HD Acc lift(T x, std::int64_t output, std::int64_t) const {
    return ties(static_cast<compute_t<T>>(x), static_cast<compute_t<T>>(extreme[output])) ? 1 : 0;
  }
  BEVEL_HD Acc combine(Acc a, Acc b) const { return a + b; }
  BEVEL_HD Small small(T x, std::int64_t output, std::int64_t i) const { return lift(x, output, i); }
  BEVEL_HD Small add(Small a, Small b) const { return a + b; }
  BEVEL_HD Acc widen(Small a) const { return a; }
};

// Squares of the distance from a centre for each output.
template <class T>
struct CentredSquareReducer {
  using Acc = double;
  using Small = compute_t<T>;
  const double* centre;

  BEVEL_HD Acc identity() const { return 0; }
  BEVEL_HD Acc lift(T x, std::int64_t output, std::int64_t) const {
    const double distance = static_cast<double>(static_cast<Small>(x)) - centre[output];
    return distance * distance;
  }
  BEVEL_HD Acc combine(Acc a, Acc b) const { return a + b; }
  BEVEL_HD Small small(T x, std::int64_t output, std::int64_t) const {
    const Small distance = static_cast<Small>(x) - static_cast<Small>(centre[output]);
    return distance * distance;
  }
  BEVEL_HD Small add(Small a, Small b) const { return a + b; }
  BEVEL_HD Acc widen(Small a) const { return static_cast<Acc>(a); }
};

template <class T>
BEVEL_HD T tie_weight(T x, T extreme, std::int64_t count) {
  using V = compute_t<T>;
  return static_cast<T>(ties(static_cast<V>(x), static_cast<V>(extreme)) ? V(1) / static_cast<V>(count) : V(0));
}

template <class Backend>
void extreme_step_on(Backend backend, bool minimum, const Tensor& in, const ReduceStep& step, const Tensor& out) {
  const auto run = [&]<class T>() {
    reduce(backend, in.data<T>(), step, ExtremeReducer<T>{minimum}, PlainStore<T>{out.data<T>()});
  };
  visit_types<decltype(run)&, float, double, bfloat16, float16, std::int32_t, std::int64_t, std::uint8_t>(
      in.dtype(), "max and min", run);
}

template <class Backend>
void arg_extreme_step_on(Backend backend, bool minimum, const Tensor& in, const ReduceStep& step, const Tensor& out) {
  const auto run = [&]<class T>() {
    reduce(backend, in.data<T>(), step, ArgExtremeReducer<T>{minimum}, IndexStore{out.data<std::int64_t>()});
  };
  visit_types<decltype(run)&, float, double, bfloat16, float16, std::int32_t, std::int64_t>(in.dtype(),
                                                                                            "argmax and argmin", run);
}

template <class Backend>
void centred_square_step_on(Backend backend, const Tensor& in, const ReduceStep& step, const Tensor& centre,
                            const Tensor& out, double divisor) {
  visit_floating(in.dtype(), "var", [&]<class T>() {
    reduce(backend, in.data<T>(), step, CentredSquareReducer<T>{centre.data<double>()},
           FloatStore{out.raw(), out.dtype(), divisor});
  });
}

// Counts the ties of each output, as i64.
template <class Backend>
Tensor count_ties(Backend backend, const Tensor& in, const ReduceStep& step, const Tensor& extreme) {
  const Tensor counts = Tensor::empty({step.outputs()}, {.dtype = Dtype::i64, .device = in.device()});
  visit_floating(in.dtype(), "max and min", [&]<class T>() {
    reduce(backend, in.data<T>(), step, TieReducer<T>{extreme.data<T>()},
           PlainStore<std::int64_t>{counts.data<std::int64_t>()});
  });
  return counts;
}

}  // namespace bevel::detail
