// Mixed precision: within an Autocast scope, convolutions and matrix products compute in a half type.
//
//   for (auto& [images, boxes] : loader) {
//     optimizer.zero_grad();
//     const Tensor loss = [&] {
//       const Autocast half(bf16);
//       return smooth_l1(net(images), boxes);
//     }();
//     loss.backward();
//     optimizer.step();
//   }
//
// Parameters stay f32 and so do their gradients; what the layers hand on is of the half type. Statistics are f32 within
// the norms, and losses take their inputs in f32. f16 wants a GradientScaler (nn/gradient_scaler.h), bf16 does not.
#pragma once

#include <bevel/core/dtype.h>
#include <bevel/core/tensor.h>

namespace bevel {

// While it lives, on this thread: conv2d, linear and matmul round f32 operands to `dtype` (bf16 or f16) and give
// results of it, and the losses widen operands of a half type to f32. f64 stays as it is. f32 turns autocast off, so
// that the precision can be a setting: Autocast scope(settings.dtype). Scopes nest. Backward passes compute in the
// dtypes of their forwards, in a scope or not.
class Autocast {
 public:
  // Error for any other dtype.
  explicit Autocast(Dtype dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  Dtype previous_;
};

// What operands are rounded to on this thread now; f32 outside of every scope.
Dtype autocast_dtype();

namespace detail {

// An operand as the scope wants it: x itself, or rounded to the half type (recorded). A parameter (an f32 leaf that
// requires a gradient) is rounded once and the copy kept until the parameter changes (core/half_copy.h).
Tensor autocast_operand(const Tensor& x);

// An input of a loss as the scope wants it: half types become f32 (recorded). Undefined stays undefined.
Tensor autocast_loss_input(const Tensor& x);

}  // namespace detail

}  // namespace bevel
