#include <bevel/nn/norm.h>
#include <bevel/ops/norm/norm.h>
#include <bevel/ops/pointwise/create.h>

#include <cmath>

namespace bevel::nn {

namespace {

Tensor parameter(std::int64_t channels, double value, bool affine) {
  return affine ? full({channels}, value).set_requires_grad() : Tensor();
}

void check_options(const char* function, double eps, Activation activation) {
  require(std::isfinite(eps) && eps >= 0, function, ": eps must be finite and not negative; got ", eps);
  require(activation != Activation::gelu, function, ": the activation must be none, relu or silu; got gelu");
}

// The operators would name themselves.
void check_input(const char* function, const Tensor& input, std::int64_t channels, Layout layout) {
  require_rank(input, 4, function, "input");
  const int axis = layout == Layout::nhwc ? 3 : 1;
  require(input.size(axis) == channels, function, ": axis ", axis, " of an ", layout, " input must have ", channels,
          " channels; its shape is ", input.shape());
}

}  // namespace

BatchNorm2d::BatchNorm2d(std::int64_t channels, const BatchNorm2dOptions& options) : options_(options) {
  require(channels >= 1, "BatchNorm2d: channels must be at least 1; got ", channels);
  check_options("BatchNorm2d", options.eps, options.activation);
  require(options.momentum >= 0 && options.momentum <= 1, "BatchNorm2d: momentum must lie in [0, 1]; got ",
          options.momentum);
  weight = parameter(channels, 1, options.affine);
  bias = parameter(channels, 0, options.affine);
  running_mean = full({channels}, 0);
  running_var = full({channels}, 1);
}

Tensor BatchNorm2d::forward(const Tensor& input) {
  check_input("BatchNorm2d", input, running_mean.numel(), options_.layout);
  require(!is_training() || input.numel() != running_mean.numel(),
          "BatchNorm2d: more than one value a channel is needed in training; the input is ", input.shape());
  return batch_norm(input, weight, bias, running_mean, running_var,
                    {.eps = options_.eps,
                     .momentum = options_.momentum,
                     .training = is_training(),
                     .activation = options_.activation,
                     .layout = options_.layout,
                     .recompute = options_.recompute});
}

void BatchNorm2d::visit(Visitor& visitor) {
  visitor("weight", weight);
  visitor("bias", bias);
  visitor.buffer("running_mean", running_mean);
  visitor.buffer("running_var", running_var);
}

BatchNorm2d BatchNorm2d::clone() const {
  BatchNorm2d copy(options_);
  copy.weight = clone_leaf(weight);
  copy.bias = clone_leaf(bias);
  copy.running_mean = clone_leaf(running_mean);
  copy.running_var = clone_leaf(running_var);
  return detail::cloned(*this, std::move(copy));
}

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& options)
    : groups_(groups), channels_(channels), options_(options) {
  require(groups >= 1 && channels >= 1 && channels % groups == 0, "GroupNorm: groups must divide the ", channels,
          " channels; got ", groups);
  check_options("GroupNorm", options.eps, options.activation);
  weight = parameter(channels, 1, options.affine);
  bias = parameter(channels, 0, options.affine);
}

Tensor GroupNorm::forward(const Tensor& input) {
  check_input("GroupNorm", input, channels_, options_.layout);
  return group_norm(input, weight, bias,
                    {.groups = groups_,
                     .eps = options_.eps,
                     .activation = options_.activation,
                     .layout = options_.layout,
                     .recompute = options_.recompute});
}

void GroupNorm::visit(Visitor& visitor) {
  visitor("weight", weight);
  visitor("bias", bias);
}

GroupNorm GroupNorm::clone() const {
  GroupNorm copy(groups_, channels_, options_);
  copy.weight = clone_leaf(weight);
  copy.bias = clone_leaf(bias);
  return detail::cloned(*this, std::move(copy));
}

}  // namespace bevel::nn
