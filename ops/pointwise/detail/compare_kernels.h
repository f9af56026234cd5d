// Kernels of compare.h. Operands are f32, f64, i32 or i64; the other dtypes are converted first.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/ops/kernel/broadcast.h>

namespace bevel::pointwise {

enum class Compare { equal, unequal, less, less_equal };

template <class Backend>
void compare_kernel(Backend backend, Compare op, const kernel::Broadcast<2>& plan, const Tensor& out, const Tensor& a,
                    const Tensor& b);
// Nonzero and nonzero, or nonzero or nonzero.
template <class Backend>
void logic_kernel(Backend backend, bool both, const kernel::Broadcast<2>& plan, const Tensor& out, const Tensor& a,
                  const Tensor& b);

struct Equal {
  template <class T>
  BEVEL_HD bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Unequal {
  template <class T>
  BEVEL_HD bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Less {
  template <class T>
  BEVEL_HD bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  BEVEL_HD bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct And {
  BEVEL_HD bool operator()(bool a, bool b) const { return a & b; }
};
struct Or {
  BEVEL_HD bool operator()(bool a, bool b) const { return a | b; }
};

// `map(f, a, b)` is called with the functor and the operands' elements.
template <class Map>
void dispatch_compare(Compare op, const Tensor& a, const Tensor& b, const Map& map) {
  const auto with = [&]<class T>() {
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    switch (op) {
      case Compare::equal:
        return map(Equal{}, x, y);
      case Compare::unequal:
        return map(Unequal{}, x, y);
      case Compare::less:
        return map(Less{}, x, y);
      case Compare::less_equal:
        return map(LessEqual{}, x, y);
    }
  };
  bevel::detail::visit_types<decltype((with)), float, double, std::int32_t, std::int64_t>(a.dtype(), "compare", with);
}

}  // namespace bevel::pointwise
