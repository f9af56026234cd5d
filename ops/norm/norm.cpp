#include <bevel/core/autograd.h>
#include <bevel/core/recompute.h>
#include <bevel/ops/norm/detail/problem.h>
#include <bevel/ops/norm/norm.h>
#include <bevel/ops/pointwise/binary.h>
#include <bevel/ops/pointwise/cast.h>
#include <bevel/ops/pointwise/compare.h>
#include <bevel/ops/pointwise/create.h>
#include <bevel/ops/pointwise/unary.h>
#include <bevel/ops/pointwise/where.h>
#include <bevel/ops/reduction/sum.h>
#include <bevel/ops/shape/reshape.h>

#include <cmath>

namespace bevel {

namespace {

using norm::Problem;

// A tensor by channel, beside the input.
void check_channels(const char* function, const Tensor& tensor, const char* name, const Tensor& input,
                    std::int64_t channels) {
  if (!tensor.defined()) return;
  const Dtype dtype = compute_dtype(input.dtype());
  require(tensor.shape() == Shape{channels}, function, ": ", name, " must have one element for each of the ", channels,
          " channels of the input of shape ", input.shape(), "; its shape is ", tensor.shape());
  require(tensor.dtype() == dtype, function, ": ", name, " must be ", dtype, " for an input of ", input.dtype(),
          "; it is ", tensor.dtype());
  require_same_device(input, tensor, function, "input", name);
}

// What both norms check, and the problem but for what differs.
Problem check(const char* function, const Tensor& input, const Tensor& weight, const Tensor& bias, double eps,
              Activation activation, Layout layout) {
  require_floating(input, function, "input");
  require_rank(input, 4, function, "input");
  require(std::isfinite(eps) && eps >= 0, function, ": eps must be finite and not negative; got ", eps);
  require(activation != Activation::gelu, function, ": the activation must be none, relu or silu; got gelu");
  const bool nchw = layout == Layout::nchw;
  const std::int64_t channels = input.size(nchw ? 1 : 3);
  check_channels(function, weight, "weight", input, channels);
  check_channels(function, bias, "bias", input, channels);
  return {.maps = {.layout = layout,
                   .dtype = input.dtype(),
                   .samples = input.size(0),
                   .pixels = nchw ? input.size(2) * input.size(3) : input.size(1) * input.size(2),
                   .channels = channels,
                   .eps = eps},
          .activation = activation};
}

void check_running(const Tensor& mean, const Tensor& var, const Tensor& input, const Problem& p) {
  require(mean.defined() == var.defined(), "batch_norm: running_mean and running_var must both be given, or neither");
  require(mean.defined() || p.maps.training, "batch_norm: evaluation needs the running statistics; they are undefined");
  check_channels("batch_norm", mean, "running_mean", input, p.maps.channels);
  check_channels("batch_norm", var, "running_var", input, p.maps.channels);
  require(!mean.defined() || !(mean.requires_grad() || var.requires_grad()),
          "batch_norm: running statistics must not require a gradient");
}

// What is saved: input, statistics, weight, bias and, for fixed statistics, those.
enum Saved { saved_input, saved_statistics, saved_weight, saved_bias, saved_mean, saved_var };

// The gradients made of operators, for a backward pass that is itself recorded. The channels are cut into groups, the
// pixels flattened: [N, pixels, groups, width] or [N, groups, width, pixels].
Gradients recorded_backward(const Backward& b, const Problem& p) {
  const bool nhwc = p.maps.layout == Layout::nhwc;
  const std::int64_t samples = p.maps.samples, pixels = p.maps.pixels, channels = p.maps.channels;
  const std::int64_t groups = p.batch ? 1 : p.maps.groups, width = channels / groups;
  const Shape view = nhwc ? Shape{samples, pixels, groups, width} : Shape{samples, groups, width, pixels};
  const Shape row = nhwc ? Shape{1, 1, groups, width} : Shape{1, groups, width, 1};
  const Axes channel_axes = nhwc ? Axes{0, 1} : Axes{0, 3};  // what a channel's sums run over
  const Axes set_axes = p.batch ? channel_axes : nhwc ? Axes{1, 3} : Axes{2, 3};
  const Tensor input = b.saved(saved_input);
  const TensorOptions options{.dtype = compute_dtype(input.dtype()), .device = input.device()};
  const auto by_channel = [&](int i, double otherwise) {
    const Tensor tensor = b.saved(i);
    return tensor.defined() ? reshape(tensor, row) : full(row, otherwise, options);
  };
  const auto set_mean = [&](const Tensor& tensor) { return mean(tensor, set_axes, {.keepdim = true}); };

  const Tensor x = reshape(cast(input, options.dtype), view), dy = reshape(cast(b.grad(), options.dtype), view);
  const Tensor weight = by_channel(saved_weight, 1);
  const Tensor centred = x - (p.fixed() ? by_channel(saved_mean, 0) : set_mean(x));
  const Tensor variance = p.fixed() ? by_channel(saved_var, 1) : set_mean(square(centred));
  const Tensor rstd = 1.0 / sqrt(variance + p.maps.eps);
  const Tensor normal = centred * rstd;
  const Tensor u = normal * weight + by_channel(saved_bias, 0);
  Tensor du = dy;
  if (p.activation == Activation::relu) du = where(gt(u, 0.0), dy, 0.0);
  if (p.activation == Activation::silu) {
    const Tensor q = sigmoid(u);
    du = dy * (q + u * q * (1.0 - q));
  }
  Tensor dx = du * weight;
  if (!p.fixed()) dx = dx - set_mean(dx) - normal * set_mean(dx * normal);
  const auto channel_sum = [&](const Tensor& tensor) { return reshape(sum(tensor, channel_axes), {channels}); };
  return {b.needs(0) ? reshape(cast(dx * rstd, input.dtype()), input.shape()) : Tensor(),
          b.needs(1) ? channel_sum(du * normal) : Tensor(), b.needs(2) ? channel_sum(du) : Tensor()};
}

// Input gradients in the order input, weight, bias.
Gradients backward_of(const Backward& b, const Problem& p) {
  const Tensor x = b.saved(saved_input);
  if (grad_enabled() && x.numel() > 0) return recorded_backward(b, p);
  const bool empty = x.numel() == 0;
  const TensorOptions options{.dtype = compute_dtype(x.dtype()), .device = x.device()};
  const auto parameter_gradient = [&](int i) {
    if (!b.needs(i)) return Tensor();
    return empty ? Tensor::zeros({p.maps.channels}, options) : Tensor::empty({p.maps.channels}, options);
  };
  const norm::BackwardArguments arguments{.x = x,
                                          .statistics = b.saved(saved_statistics),
                                          .dy = b.grad(),
                                          .dx = b.needs(0) ? Tensor::empty(x.shape(), x.options()) : Tensor(),
                                          .dweight = parameter_gradient(1),
                                          .dbias = parameter_gradient(2)};
  if (!empty) on(x.device(), [&](auto backend) { norm::backward(backend, p, arguments); });
  return {arguments.dx, arguments.dweight, arguments.dbias};
}

// The output once more. In training the running statistics are left alone.
Tensor again(const Problem& p, std::span<const Tensor> kept) {
  const Tensor y = Tensor::empty(kept[0].shape(), kept[0].options());
  on(y.device(), [&](auto backend) { norm::forward(backend, p, {kept[0], kept[1], kept[2], kept[3], kept[4], y}); });
  return y;
}

Tensor run(const char* name, const Problem& p, const norm::ForwardArguments& f, bool recomputed) {
  Tensor statistics, y = f.y;
  if (f.x.numel() > 0) {
    statistics = on(f.x.device(), [&](auto backend) { return norm::forward(backend, p, f); });
    if (p.batch && p.maps.training && f.running_mean.defined()) {
      f.running_mean.mark_changed();
      f.running_var.mark_changed();
    }
  }
  const Tensor mean = p.fixed() ? f.running_mean : Tensor(), var = p.fixed() ? f.running_var : Tensor();
  record(name, y, {f.x, f.weight, f.bias}, {f.x, statistics, f.weight, f.bias, mean, var},
         [p](const Backward& b) { return backward_of(b, p); });
  if (recomputed && f.x.numel() > 0)
    recompute("norm again", y, {f.x, f.weight, f.bias, mean, var},
              [p](std::span<const Tensor> kept) { return again(p, kept); });
  return y;
}

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& options) {
  Problem p = check("batch_norm", input, weight, bias, options.eps, options.activation, options.layout);
  require(options.momentum >= 0 && options.momentum <= 1, "batch_norm: momentum must be between 0 and 1; got ",
          options.momentum);
  p.batch = true;
  p.maps.momentum = options.momentum;
  p.maps.training = options.training;
  check_running(running_mean, running_var, input, p);
  require(!options.training || input.numel() != p.maps.channels,
          "batch_norm: more than one value a channel is needed in training; the input is ", input.shape());
  return run("batch_norm", p,
             {input, weight, bias, running_mean, running_var, Tensor::empty(input.shape(), input.options())},
             options.recompute);
}

Tensor group_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const GroupNormOptions& options) {
  Problem p = check("group_norm", input, weight, bias, options.eps, options.activation, options.layout);
  require(options.groups >= 1 && p.maps.channels % options.groups == 0, "group_norm: ", options.groups,
          " groups do not divide the ", p.maps.channels, " channels of the ", options.layout, " input of shape ",
          input.shape());
  p.maps.groups = options.groups;
  return run("group_norm", p, {input, weight, bias, {}, {}, Tensor::empty(input.shape(), input.options())},
             options.recompute);
}

}  // namespace bevel
