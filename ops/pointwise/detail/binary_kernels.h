// Kernels of binary.h: an enumeration of the operators, and one dispatch shared by both backends.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/kernel/broadcast.h>
#include <bevel/ops/kernel/math.h>

namespace bevel::pointwise {

// greater_weight: 1 where a > b, 1/2 where equal, 0 where a < b, NaN where neither: what a maximum hands to a.
enum class Binary { add, sub, mul, div, maximum, minimum, greater_weight };
// On a tensor and a number.
enum class Scalar { add, mul, div };

// Error in the name of `function` unless the elements of x can be computed with `number`.
void require_number(const Tensor& x, double number, const char* function);

void binary_kernel(Cpu, Binary op, const kernel::Broadcast<2>& plan, const Tensor& out, const Tensor& a,
                   const Tensor& b);
void binary_kernel(Cuda, Binary op, const kernel::Broadcast<2>& plan, const Tensor& out, const Tensor& a,
                   const Tensor& b);
void scalar_kernel(Cpu, Scalar op, double number, const Tensor& out, const Tensor& a);
void scalar_kernel(Cuda, Scalar op, double number, const Tensor& out, const Tensor& a);

struct Add {
  template <class T>
  BEVEL_HD T operator()(T a, T b) const {
    return a + b;
  }
};
struct Sub {
  template <class T>
  BEVEL_HD T operator()(T a, T b) const {
    return a - b;
  }
};
struct Mul {
  template <class T>
  BEVEL_HD T operator()(T a, T b) const {
    return a * b;
  }
};
struct Div {
  template <class T>
  BEVEL_HD T operator()(T a, T b) const {
    return math::divide(a, b);
  }
};
struct Maximum {
  template <class T>
  BEVEL_HD T operator()(T a, T b) const {
    return a >= b || a != a ? a : b;
  }
};
struct Minimum {
  template <class T>
  BEVEL_HD T operator()(T a, T b) const {
    return a <= b || a != a ? a : b;
  }
};
struct GreaterWeight {
  template <class T>
  BEVEL_HD T operator()(T a, T b) const {
    return a > b ? T(1) : a < b ? T(0) : a == b ? T(0.5) : a + b;
  }
};

template <class T>
struct AddNumber {
  T number;
  BEVEL_HD T operator()(T a) const { return a + number; }
};
template <class T>
struct MulNumber {
  T number;
  BEVEL_HD T operator()(T a) const { return a * number; }
};
template <class T>
struct DivNumber {
  T number;
  BEVEL_HD T operator()(T a) const { return math::divide(a, number); }
};

// f32, f64, bf16, f16, i32 and i64; anything else is an Error.
template <class F>
decltype(auto) visit_arithmetic(Dtype dtype, const char* function, F&& f) {
  return bevel::detail::visit_types<F, float, double, bfloat16, float16, std::int32_t, std::int64_t>(
      dtype, function, std::forward<F>(f));
}

// `run` is called with the functor and the element type.
template <class Run>
void dispatch_binary(Binary op, Dtype dtype, const Run& run) {
  visit_arithmetic(dtype, "pointwise arithmetic", [&]<class T>() {
    switch (op) {
      case Binary::add:
        return run.template operator()<T>(Add{});
      case Binary::sub:
        return run.template operator()<T>(Sub{});
      case Binary::mul:
        return run.template operator()<T>(Mul{});
      case Binary::maximum:
        return run.template operator()<T>(Maximum{});
      case Binary::minimum:
        return run.template operator()<T>(Minimum{});
      default:
        break;
    }
    if constexpr (is_floating(dtype_of<T>)) {
      if (op == Binary::div) return run.template operator()<T>(Div{});
      if (op == Binary::greater_weight) return run.template operator()<T>(GreaterWeight{});
    }
    fail("div: not defined for ", dtype);
  });
}

template <class Run>
void dispatch_scalar(Scalar op, double number, Dtype dtype, const Run& run) {
  visit_arithmetic(dtype, "arithmetic with a number", [&]<class T>() {
    using C = compute_t<T>;
    const C value = static_cast<C>(number);
    if (op == Scalar::add) return run.template operator()<T>(AddNumber<C>{value});
    if (op == Scalar::mul) return run.template operator()<T>(MulNumber<C>{value});
    if constexpr (is_floating(dtype_of<T>)) return run.template operator()<T>(DivNumber<C>{value});
    fail("div: not defined for ", dtype);
  });
}

}  // namespace bevel::pointwise
