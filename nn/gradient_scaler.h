// Loss scaling for f16: the loss is made so large that its small gradients do not vanish in f16, and the optimiser
// undoes it. Gradients that became infinite or NaN make the step a void one and the scale smaller.
//
//   GradientScaler scaler{net.parameters()};
//   ...
//     optimizer.zero_grad();
//     const Tensor loss = [&] {
//       const Autocast half(f16);
//       return smooth_l1(net(images), boxes, {.scale = scaler.scale()});
//     }();
//     loss.backward();
//     scaler.step(optimizer);
//
// All of it happens on the device: nothing waits, and the step can be captured. The loss comes out multiplied by the
// scale; to report it, divide by scale().
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/nn/named_tensor.h>
#include <bevel/nn/optim/optimizer.h>

#include <cstdint>
#include <span>
#include <vector>

namespace bevel::nn {

// Order of the fields as given.
struct GradientScalerOptions {
  double initial = 65536;  // the first scale
  double growth = 2;       // factor after `interval` steps without a void one between them
  double backoff = 0.5;    // factor after a void step
  std::int64_t interval = 2000;
};

class GradientScaler {
 public:
  // `parameters`: those whose gradients are looked at, f32 or f64, all on one device, where the scale lives from now
  // on. Error if there are none, and for options that are not finite and positive, growth below 1, backoff above 1.
  explicit GradientScaler(std::vector<Tensor> parameters, const GradientScalerOptions& options = {});

  // f32 of shape [], to be given to the loss as `.scale`. The handle stays; step() changes the value.
  const Tensor& scale() const { return scale_; }

  // optimizer.step with gradients divided by the scale, or nothing at all if one of them is not finite; then the scale
  // for the next step. The gradients themselves stay scaled.
  void step(optim::Optimizer& optimizer);

  // How many steps were void so far. Waits for the device.
  std::int64_t void_steps() const;

  // Scale and counts, for checkpoints: copies. load_state: Error if they are not of this kind; nothing has changed
  // then.
  NamedTensors state() const;
  void load_state(std::span<const NamedTensor> state);

 private:
  std::vector<Tensor> parameters_;
  GradientScalerOptions options_;
  Tensor scale_;
  Tensor factor_;  // f32 []: what the optimiser multiplies gradients by
  Tensor counts_;  // i64 [3]: whether a gradient is not finite, good steps in a row, void steps
};

}  // namespace bevel::nn
