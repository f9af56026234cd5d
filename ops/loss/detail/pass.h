// What the driver of the losses asks of a formula: one pass over the elements, on one device.
#pragma once

#include <bevel/core/device.h>
#include <bevel/core/dtype.h>

#include <cstdint>

namespace bevel::detail {

// One f32 or f64 number in device memory; data is null where there is none.
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
  DeviceNumber scale;
  DeviceNumber normalizer;

  const void* upstream = nullptr;  // null: 1
  bool upstream_each = false;      // one an element, else one number

  void* value = nullptr;
  bool value_each = false;
  void* d_input = nullptr;
  void* d_target = nullptr;

  bool is_second = false;
  const void* direction_input = nullptr;  // null: 0
  const void* direction_target = nullptr;

  bool wants_gradient() const { return d_input || d_target; }
};

// A piece of a pass on the CPU, in the compute type. No pointer is null but the directions and what is said below.
template <class T>
struct LossTile {
  std::int64_t count;
  const T* input;
  const T* target;
  T* value;
  T* d_input;                          // null: the value is all that is wanted
  T* d_target;                         // null: not wanted; formulas of an error never write it, it is -d_input
  T seed;                              // d_input is multiplied by it
  const T* direction_input = nullptr;  // not null: the second pass, without a seed
  const T* direction_target = nullptr;
};

// A formula with its kernels.
class LossKernels {
 public:
  LossKernels() = default;
  LossKernels(const LossKernels&) = delete;
  LossKernels& operator=(const LossKernels&) = delete;
  virtual ~LossKernels() = default;

  // Adjacent numbers that make up an element: 1, or 4 for formulas of rows.
  virtual int width() const = 0;
  // Whether the loss depends on input - target alone.
  virtual bool of_error() const = 0;
  virtual void evaluate(const LossTile<float>& tile) const = 0;
  virtual void evaluate(const LossTile<double>& tile) const = 0;
  virtual void launch(Cuda backend, const LossPass& pass) const = 0;
};

}  // namespace bevel::detail
