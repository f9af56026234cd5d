// Batch and group normalisation, alone or with relu or silu behind them in the same kernels; see ops/norm/norm.h.
#pragma once

#include <bevel/nn/module.h>
#include <bevel/ops/activation.h>
#include <bevel/ops/layout.h>

#include <cstdint>

namespace bevel::nn {

// Order of the fields as given.
struct BatchNorm2dOptions {
  double eps = 1e-5;      // added to the variance
  double momentum = 0.1;  // weight of the new value in the running statistics
  Layout layout = Layout::nhwc;
  Activation activation = Activation::none;  // or relu or silu
  bool affine = true;                        // whether there are weight and bias
  bool recompute = false;                    // see EvoNorm2dOptions
};

// y = activation((x - mean) / sqrt(var + eps) * weight + bias), per channel (Ioffe and Szegedy, ICML 2015). In training
// mode mean and biased variance are those of the batch, and the running statistics take in the mean and the unbiased
// variance; in evaluation mode the running statistics are used.
class BatchNorm2d : public Module {
 public:
  explicit BatchNorm2d(std::int64_t channels, const BatchNorm2dOptions& options = {});

  // [N, H, W, channels], or [N, channels, H, W], to the same; bf16 and f16 as well. Error in training mode for a single
  // value a channel, whose variance says nothing.
  Tensor forward(const Tensor& input) override;
  void visit(Visitor& visitor) override;
  BatchNorm2d clone() const;

  const BatchNorm2dOptions& options() const { return options_; }

  Tensor weight;        // [channels], starts as 1; undefined without `affine`, like bias
  Tensor bias;          // [channels], starts as 0
  Tensor running_mean;  // a buffer [channels], starts as 0
  Tensor running_var;   // a buffer [channels], starts as 1

 private:
  explicit BatchNorm2d(const BatchNorm2dOptions& options) : options_(options) {}

  BatchNorm2dOptions options_;
};

// Order of the fields as given.
struct GroupNormOptions {
  double eps = 1e-5;  // added to the variance
  Layout layout = Layout::nhwc;
  Activation activation = Activation::none;  // or relu or silu
  bool affine = true;                        // whether there are weight and bias
  bool recompute = false;                    // see EvoNorm2dOptions
};

// The same with mean and biased variance of each picture over runs of channels / groups adjacent channels (Wu and He,
// ECCV 2018); training and evaluation do not differ.
class GroupNorm : public Module {
 public:
  // Error unless `groups` divides `channels`.
  GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& options = {});

  // [N, H, W, channels], or [N, channels, H, W], to the same; bf16 and f16 as well.
  Tensor forward(const Tensor& input) override;
  void visit(Visitor& visitor) override;
  GroupNorm clone() const;

  const GroupNormOptions& options() const { return options_; }

  Tensor weight;  // [channels], starts as 1; undefined without `affine`, like bias
  Tensor bias;    // [channels], starts as 0

 private:
  std::int64_t groups_, channels_;
  GroupNormOptions options_;
};

}  // namespace bevel::nn
