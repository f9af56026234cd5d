// What a kernel of a loss computes in one pass over the elements, on plain pointers.
#pragma once

#include <bevel/core/dtype.h>

#include <cstddef>
#include <cstdint>

namespace bevel::raw {

// Workspace of a pass on CUDA, of whatever size. All zeros before its first use; every pass leaves it fit for the next.
inline constexpr std::size_t loss_workspace_bytes = 526336;

// One f32 or f64 number in the memory of the device; data is null where there is none.
struct DeviceNumber {
  const void* data = nullptr;
  bool is_f64 = false;
};

// One pass. A formula of rows has one loss for four adjacent numbers: `count`, weights, values and upstream gradients
// then go by rows. Elements are of `dtype`, reduced values and their upstream gradient of its compute type. Of an
// element with loss f, weight w and upstream gradient u it computes
//   value            w f · factor, one an element, or summed up
//   d_input, d_target    w f' · factor · u
// and, given directions a for the input and b for the target, in place of these the second pass's
//   value            w (a f_x + b f_t) · factor
//   d_input          w (a f_xx + b f_xt) · factor · u     d_target   w (a f_xt + b f_tt) · factor · u
// where factor is `factor` · scale / normalizer; a normaliser of 0 makes everything 0. Null pointers ask for nothing.
struct LossPass {
  Dtype dtype = f32;
  std::int64_t count = 0;
  const void* input = nullptr;
  const void* target = nullptr;
  const void* weight = nullptr;
  std::int64_t weight_row = 1;  // elements that share a weight
  double factor = 1;
  bool is_zero = false;  // the normaliser is 0
  DeviceNumber scale = {};
  DeviceNumber normalizer = {};

  const void* upstream = nullptr;  // null: 1
  bool upstream_each = false;      // one an element, else one number

  void* value = nullptr;
  bool value_each = false;
  void* d_input = nullptr;
  void* d_target = nullptr;

  bool is_second = false;
  const void* direction_input = nullptr;  // null: 0
  const void* direction_target = nullptr;

  // Reduced values and their upstream gradient are of `dtype`, too, where that is a half type.
  bool reduced_is_half = false;

  bool wants_gradient() const { return d_input || d_target; }
};

// to[i] = from[i] · factor. `from` and `to` may be the same array: nothing but the factor is read where that is 1.
struct GradientScale {
  Dtype dtype = f32;
  std::int64_t count = 0;
  const void* from = nullptr;
  const void* factor = nullptr;  // one number of the compute type
  bool factor_is_half = false;   // it is of `dtype`, where that is a half type
  void* to = nullptr;
};

}  // namespace bevel::raw
