// One step of the training: pictures as bytes in, changed weights and a loss out.
#pragma once

#include <bevel/core/capture.h>
#include <bevel/core/tensor.h>
#include <bevel/nn/gradient_scaler.h>
#include <bevel/nn/optim/optimizer.h>
#include <bevel/ops/matmul/matmul.h>

#include <optional>

#include "model.h"
#include "settings.h"

namespace bbox {

// On a GPU the step is captured: recorded once for each size of batch and then replayed, unless the settings ask for a
// profile, which sees only operators that run one by one. The bits are the same either way. The process's precision of
// matrix products is that of the settings while this lives.
class TrainingStep {
 public:
  // Model and optimiser must live as long as this and stay where they are.
  TrainingStep(Regressor& model, bevel::optim::Optimizer& optimizer, const Settings& settings);
  ~TrainingStep();
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  // The parts of a batch (batches.h), on the device of the model. Returns the loss without waiting for it.
  bevel::Tensor operator()(const bevel::Tensor& pictures, const bevel::Tensor& warps, const bevel::Tensor& boxes);

 private:
  struct Call {
    TrainingStep* step;
    bevel::Tensor operator()(const bevel::Tensor& pictures, const bevel::Tensor& warps,
                             const bevel::Tensor& boxes) const {
      return step->run(pictures, warps, boxes);
    }
  };

  bevel::Tensor run(const bevel::Tensor& pictures, const bevel::Tensor& warps, const bevel::Tensor& boxes);

  Regressor& model_;
  bevel::optim::Optimizer& optimizer_;
  double beta_;
  bool captures_;
  bevel::Precision precision_before_;
  bevel::Dtype dtype_ = bevel::f32;
  std::optional<bevel::nn::GradientScaler> scaler_;
  bevel::Captured<Call> captured_;
};

}  // namespace bbox
