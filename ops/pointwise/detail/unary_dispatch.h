// From a UnaryCall to kernel::map, for the sources that instantiate a list.
#pragma once

#include <bevel/ops/kernel/dual.h>
#include <bevel/ops/pointwise/detail/unary_kernels.h>

namespace bevel::pointwise {

template <class F, class X>
concept HasDerivative = requires(const F& f, X x) { f.derivative(x); };

// x -> f(x) and (dy, x) -> dy * f^(order)(x), on plain elements.
template <class F, int order>
struct Evaluate {
  F f;

  template <class T>
  BEVEL_HD T operator()(T x) const {
    return f(Number<T>(x)).value;
  }

  template <class T>
  BEVEL_HD T operator()(T dy, T x) const {
    using X = Number<T>;
    X slope;
    if constexpr (order == 1 && HasDerivative<F, X>)
      slope = f.derivative(X(x));
    else if constexpr (order == 1)
      slope = f(Dual<X>(X(x), X(1))).derivative;
    else if constexpr (HasDerivative<F, X>)
      slope = f.derivative(Dual<X>(X(x), X(1))).derivative;
    else
      slope = f(Dual<Dual<X>>(Dual<X>(X(x), X(1)), Dual<X>(X(1), X(0)))).derivative.derivative;
    return math::multiply(dy, slope.value);
  }
};

template <class F, class Map>
void unary_run(const UnaryCall& call, const Map& map) {
  const F& f = *static_cast<const F*>(call.functor);
  visit_floating(call.out.dtype(), F::name, [&]<class T>() {
    const T* x = call.x.data<T>();
    T* out = call.out.data<T>();
    if (call.order == 0) return map(Evaluate<F, 0>{f}, call.out.numel(), out, x);
    const T* dy = call.dy.data<T>();
    if (call.order == 1) return map(Evaluate<F, 1>{f}, call.out.numel(), out, dy, x);
    map(Evaluate<F, 2>{f}, call.out.numel(), out, dy, x);
  });
}

// map(f, n, out, in...) is the loop of the backend.
template <class Map, class... F>
void unary_dispatch(Operators<F...>, const UnaryCall& call, const Map& map) {
  using Run = void (*)(const UnaryCall&, const Map&);
  static constexpr Run run[] = {&unary_run<F, Map>...};
  run[call.index](call, map);
}

}  // namespace bevel::pointwise
