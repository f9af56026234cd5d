#include "step.h"

#include <bevel/ops/autocast.h>
#include <bevel/ops/loss/smooth_l1.h>
#include <bevel/ops/pointwise/binary.h>

#include "augment.h"

namespace bbox {

TrainingStep::TrainingStep(Regressor& model, bevel::optim::Optimizer& optimizer, const Settings& settings)
    : model_(model),
      optimizer_(optimizer),
      beta_(settings.beta),
      captures_(!settings.profile),
      precision_before_(bevel::matmul_precision()),
      captured_(Call{this}) {
  if (settings.precision == Precision::bf16) dtype_ = bevel::bf16;
  if (settings.precision == Precision::f16) {
    dtype_ = bevel::f16;
    scaler_.emplace(model.parameters());
  }
  if (settings.precision == Precision::tf32) bevel::set_matmul_precision(bevel::Precision::tf32);
}

TrainingStep::~TrainingStep() {
  bevel::set_matmul_precision(precision_before_);
}

bevel::Tensor TrainingStep::operator()(const bevel::Tensor& pictures, const bevel::Tensor& warps,
                                       const bevel::Tensor& boxes) {
  return captures_ ? captured_(pictures, warps, boxes) : run(pictures, warps, boxes);
}

bevel::Tensor TrainingStep::run(const bevel::Tensor& pictures, const bevel::Tensor& warps, const bevel::Tensor& boxes) {
  optimizer_.zero_grad();
  bevel::SmoothL1Options options{.beta = beta_};
  if (scaler_) options.scale = scaler_->scale();
  const bevel::Tensor loss = [&] {
    const bevel::Autocast scope(dtype_);
    return bevel::smooth_l1(model_(bevel::warp_images(pictures, warps, network_pixels)), boxes, options);
  }();
  loss.backward();
  if (!scaler_) {
    optimizer_.step();
    return loss.detach();
  }
  const bevel::Tensor unscaled = bevel::div(loss.detach(), scaler_->scale());  // before the scale changes
  scaler_->step(optimizer_);
  return unscaled;
}

}  // namespace bbox
