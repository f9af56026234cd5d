// A number of f32 or f64 in a device's memory.
#pragma once

#include <bevel/core/hostdevice.h>
#include <bevel/core/tensor.h>

namespace bevel::detail {

struct Factor {
  const void* data = nullptr;  // null: the number 1
  bool is_f64 = true;

  BEVEL_HD double value() const {
    if (!data) return 1;
    return is_f64 ? *static_cast<const double*>(data) : static_cast<double>(*static_cast<const float*>(data));
  }
};

inline Factor factor_of(const Tensor& tensor) {
  return tensor.defined() ? Factor{tensor.raw(), tensor.dtype() == f64} : Factor{};
}

}  // namespace bevel::detail
