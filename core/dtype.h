// Element types, and the one switch from a run-time Dtype to a C++ type.
#pragma once

#include <bevel/core/error.h>
#include <bevel/core/half.h>

#include <cstdint>
#include <ostream>
#include <type_traits>
#include <utility>

namespace bevel {

enum class Dtype : std::uint8_t { f32, f64, bf16, f16, i32, i64, u8, boolean };

inline constexpr Dtype f32 = Dtype::f32;
inline constexpr Dtype f64 = Dtype::f64;
inline constexpr Dtype bf16 = Dtype::bf16;
inline constexpr Dtype f16 = Dtype::f16;
inline constexpr Dtype i32 = Dtype::i32;
inline constexpr Dtype i64 = Dtype::i64;
inline constexpr Dtype u8 = Dtype::u8;
inline constexpr Dtype boolean = Dtype::boolean;

constexpr std::int64_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
    case Dtype::i64:
      return 8;
    case Dtype::f32:
    case Dtype::i32:
      return 4;
    case Dtype::bf16:
    case Dtype::f16:
      return 2;
    default:
      return 1;
  }
}

constexpr const char* name(Dtype dtype) {
  constexpr const char* names[] = {"f32", "f64", "bf16", "f16", "i32", "i64", "u8", "bool"};
  return names[static_cast<int>(dtype)];
}

constexpr bool is_floating(Dtype dtype) {
  return dtype <= Dtype::f16;
}
constexpr bool is_half(Dtype dtype) {
  return dtype == Dtype::bf16 || dtype == Dtype::f16;
}

// The type in which values of `dtype` are summed and computed: f32 for the half types, else itself.
constexpr Dtype compute_dtype(Dtype dtype) {
  return is_half(dtype) ? Dtype::f32 : dtype;
}

inline std::ostream& operator<<(std::ostream& out, Dtype dtype) {
  return out << name(dtype);
}

// dtype_of<float> == f32, and so on.
template <class T>
inline constexpr Dtype dtype_of = [] {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>)
    return Dtype::f32;
  else if constexpr (std::is_same_v<U, double>)
    return Dtype::f64;
  else if constexpr (std::is_same_v<U, bfloat16>)
    return Dtype::bf16;
  else if constexpr (std::is_same_v<U, float16>)
    return Dtype::f16;
  else if constexpr (std::is_same_v<U, std::int32_t>)
    return Dtype::i32;
  else if constexpr (std::is_same_v<U, std::int64_t>)
    return Dtype::i64;
  else if constexpr (std::is_same_v<U, std::uint8_t>)
    return Dtype::u8;
  else if constexpr (std::is_same_v<U, bool>)
    return Dtype::boolean;
  else
    static_assert(!sizeof(U), "not an element type of bevel::Tensor");
}();

// The C++ type in which T is computed: float for the half types, else T.
template <class T>
using compute_t = std::conditional_t<std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>, float, T>;

namespace detail {
template <class F, class T, class... Rest>
decltype(auto) visit_types(Dtype dtype, const char* function, F&& f) {
  if (dtype == dtype_of<T>) return std::forward<F>(f).template operator()<T>();
  if constexpr (sizeof...(Rest) > 0)
    return visit_types<F, Rest...>(dtype, function, std::forward<F>(f));
  else
    fail(function, ": not defined for ", dtype);
}
}  // namespace detail

// visit(dtype, [&]<class T>() { ... }) calls with the C++ type of `dtype`.
template <class F>
decltype(auto) visit(Dtype dtype, F&& f) {
  return detail::visit_types<F, float, double, bfloat16, float16, std::int32_t, std::int64_t, std::uint8_t, bool>(
      dtype, "visit", std::forward<F>(f));
}

// The same for some dtypes only; any other is an Error in the name of `function`.
template <class F>
decltype(auto) visit_floating(Dtype dtype, const char* function, F&& f) {
  return detail::visit_types<F, float, double, bfloat16, float16>(dtype, function, std::forward<F>(f));
}

template <class F>
decltype(auto) visit_float_double(Dtype dtype, const char* function, F&& f) {
  return detail::visit_types<F, float, double>(dtype, function, std::forward<F>(f));
}

}  // namespace bevel
