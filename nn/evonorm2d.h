// EvoNorm2d: normalisation and nonlinearity in one layer; see ops/evonorm/evonorm.h for the variants.
#pragma once

#include <bevel/nn/module.h>
#include <bevel/ops/evonorm/evonorm.h>

#include <cstdint>

namespace bevel::nn {

// Order of the fields as given.
struct EvoNorm2dOptions {
  EvoNorm variant = EvoNorm::S0;
  std::int64_t groups = 8;      // S variants only; must divide the channels
  std::int64_t group_size = 0;  // channels a group, in place of the number of groups; 0: `groups` counts
  double eps = 1e-5;            // inside the square roots
  double momentum = 0.1;        // weight of the new value in running_var
  bool zero_gamma = false;      // weight starts as 0, for the last layer of a residual branch
  bool nonlinearity = true;     // false: the affine map alone
  Layout layout = Layout::nhwc;
  // The convolution that follows keeps the output for its backward pass. With this the output is computed again there,
  // the same bits from the input, which is kept anyway: half the memory between forward and backward for a forward pass
  // of the norm more.
  bool recompute = false;
};

class EvoNorm2d : public Module {
 public:
  // Error if the variant has groups, or a group size, that do not divide `channels`, or an option is out of range.
  explicit EvoNorm2d(std::int64_t channels, const EvoNorm2dOptions& options = {});

  // [N, H, W, channels] or [N, channels, H, W] to the same. In training mode B variants update running_var.
  Tensor forward(const Tensor& input) override;
  void visit(Visitor& visitor) override;
  EvoNorm2d clone() const;

  const EvoNorm2dOptions& options() const { return options_; }

  Tensor weight;       // gamma [channels], starts as 1
  Tensor bias;         // beta [channels], starts as 0
  Tensor v;            // [channels], starts as 1; undefined for a variant without
  Tensor running_var;  // a buffer [channels], starts as 1; undefined for S variants

 private:
  explicit EvoNorm2d(const EvoNorm2dOptions& options) : options_(options) {}

  EvoNorm2dOptions options_;
};

}  // namespace bevel::nn
