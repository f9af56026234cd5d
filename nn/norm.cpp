#include <bevel/core/autograd.h>
#include <bevel/nn/norm.h>
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/pointwise/create.h>
#include <bevel/ops/pointwise/inplace.h>
#include <bevel/ops/pointwise/unary.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/shape/reshape.h>

namespace bevel::nn {

namespace {

Tensor parameter(std::int64_t channels, double value) {
  return full({channels}, value).set_requires_grad();
}

// Checks the input and returns [1, 1, 1, C] or [1, C, 1, 1], to which a tensor [C] is reshaped for broadcasting.
Shape channel_shape(const char* function, const Tensor& input, std::int64_t channels, Layout layout) {
  require_rank(input, 4, function, "input");
  require(input.dtype() == f32 || input.dtype() == f64, function, ": input must be f32 or f64; it is ", input.dtype());
  const int axis = layout == Layout::nhwc ? 3 : 1;
  require(input.size(axis) == channels, function, ": axis ", axis, " of an ", layout, " input must have ", channels,
          " channels; its shape is ", input.shape());
  return Shape{1, 1, 1, 1}.replaced(axis, channels);
}

void check_eps(const char* function, double eps) {
  require(eps >= 0, function, ": eps must not be negative; got ", eps);
}

}  // namespace

BatchNorm2d::BatchNorm2d(std::int64_t channels, const BatchNorm2dOptions& options) : options_(options) {
  require(channels >= 1, "BatchNorm2d: channels must be at least 1; got ", channels);
  check_eps("BatchNorm2d", options.eps);
  require(options.momentum >= 0 && options.momentum <= 1, "BatchNorm2d: momentum must lie in [0, 1]; got ",
          options.momentum);
  weight = parameter(channels, 1);
  bias = parameter(channels, 0);
  running_mean = full({channels}, 0);
  running_var = full({channels}, 1);
}

Tensor BatchNorm2d::forward(const Tensor& input) {
  const std::int64_t channels = weight.numel();
  const Shape shape = channel_shape("BatchNorm2d", input, channels, options_.layout);
  const Tensor scale = reshape(weight, shape);
  const Tensor shift = reshape(bias, shape);
  if (!is_training()) {
    const Tensor factor = scale / sqrt(reshape(running_var, shape) + options_.eps);
    return (input - reshape(running_mean, shape)) * factor + shift;
  }
  const std::int64_t count = input.numel() / channels;
  require(count > 1, "BatchNorm2d: more than one value a channel is needed in training; the input is ", input.shape());
  const Axes axes = options_.layout == Layout::nhwc ? Axes{0, 1, 2} : Axes{0, 2, 3};
  const Tensor batch_mean = mean(input, axes, {.keepdim = true});
  const Tensor centred = input - batch_mean;
  const Tensor variance = mean(square(centred), axes, {.keepdim = true});
  no_grad([&] {
    const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
    mul_(running_mean, 1 - options_.momentum);
    add_(running_mean, reshape(batch_mean, {channels}), options_.momentum);
    mul_(running_var, 1 - options_.momentum);
    add_(running_var, reshape(variance, {channels}), options_.momentum * unbiased);
  });
  return centred / sqrt(variance + options_.eps) * scale + shift;
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
    : groups_(groups), options_(options) {
  require(groups >= 1 && channels >= 1 && channels % groups == 0, "GroupNorm: groups must divide the ", channels,
          " channels; got ", groups);
  check_eps("GroupNorm", options.eps);
  weight = parameter(channels, 1);
  bias = parameter(channels, 0);
}

Tensor GroupNorm::forward(const Tensor& input) {
  const std::int64_t channels = weight.numel();
  const Shape shape = channel_shape("GroupNorm", input, channels, options_.layout);
  const bool last = options_.layout == Layout::nhwc;
  const std::int64_t batch = input.size(0);
  const std::int64_t each = channels / groups_;
  // The channels as groups and members: [N, pixels, g, c] or [N, g, c, pixels].
  const std::int64_t pixels = channels > 0 && batch > 0 ? input.numel() / (batch * channels) : 0;
  const Tensor grouped =
      last ? reshape(input, {batch, pixels, groups_, each}) : reshape(input, {batch, groups_, each, pixels});
  const Axes axes = last ? Axes{1, 3} : Axes{2, 3};
  const Tensor centred = grouped - mean(grouped, axes, {.keepdim = true});
  const Tensor variance = mean(square(centred), axes, {.keepdim = true});
  const Tensor normal = reshape(centred / sqrt(variance + options_.eps), input.shape());
  return normal * reshape(weight, shape) + reshape(bias, shape);
}

void GroupNorm::visit(Visitor& visitor) {
  visitor("weight", weight);
  visitor("bias", bias);
}

GroupNorm GroupNorm::clone() const {
  GroupNorm copy(groups_, options_);
  copy.weight = clone_leaf(weight);
  copy.bias = clone_leaf(bias);
  return detail::cloned(*this, std::move(copy));
}

}  // namespace bevel::nn
