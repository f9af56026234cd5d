#include <bevel/core/autograd.h>
#include <bevel/ops/autocast.h>
#include <bevel/ops/loss/detail/driver.h>

#include <array>
#include <cmath>

namespace bevel::detail {

namespace {

// What a recorded loss knows beside its tensors.
struct Loss {
  const char* name;
  std::shared_ptr<const LossKernels> kernels;
  Reduction reduction;
  double factor;  // the part of scale / normaliser that the host knows
  bool is_zero;   // the normaliser is the number 0
  std::int64_t weight_row;
  bool fused;

  bool reduces() const { return reduction != Reduction::none; }
};

// The tensors of a loss, in the order in which a node saves them.
struct LossTensors {
  Tensor input;
  Tensor target;
  Tensor weight;
  Tensor scale;
  Tensor normalizer;
};
constexpr int saved_d_input = 5;
constexpr int saved_d_target = 6;

void check_number(const char* name, const char* what, const NumberOrTensor& number, const Tensor& input) {
  if (!number.is_tensor()) {
    require(std::isfinite(number.number()), name, ": ", what, " must be finite; got ", number.number());
    return;
  }
  const Tensor& tensor = number.tensor();
  require(tensor.numel() == 1 && (tensor.dtype() == f32 || tensor.dtype() == f64), name, ": ", what,
          " must have one element of f32 or f64; it is ", tensor.dtype(), " ", tensor.shape());
  require_same_device(input, tensor, name, "input", what);
  require(!tensor.requires_grad(), name, ": ", what, " must not require a gradient");
}

// The shape of the values before they are reduced: that of the input, without the last axis for losses of rows.
Shape value_shape(const LossKernels& kernels, const Tensor& input) {
  return kernels.width() == 1 ? input.shape() : input.shape().without(input.rank() - 1);
}

// Elements that share a weight; checks the weight's shape.
std::int64_t weight_row(const char* name, const LossKernels& kernels, const Tensor& input, const Tensor& weight) {
  if (!weight.defined()) return 1;
  require_same_device(input, weight, name, "input", "weight");
  require_same_dtype(input, weight, name, "input", "weight");
  require(!weight.requires_grad(), name, ": the weight must not require a gradient; pass weight.detach()");
  if (kernels.width() > 1) {
    const Shape shape = value_shape(kernels, input);
    require(weight.shape() == shape || weight.shape() == input.shape().replaced(input.rank() - 1, 1), name,
            ": the weight must have shape ", shape, ", one for each row; its shape is ", weight.shape());
    return 1;
  }
  if (weight.shape() == input.shape()) return 1;
  const bool by_row = input.rank() >= 1 && weight.shape() == input.shape().replaced(input.rank() - 1, 1);
  require(by_row, name, ": the weight must have the input's shape ", input.shape(),
          " or one weight for each row of its last axis; its shape is ", weight.shape());
  return input.size(-1);
}

Loss checked(const char* name, std::shared_ptr<const LossKernels> kernels, const Tensor& input, const Tensor& target,
             const LossOptions& options) {
  require_same_shape(input, target, name, "input", "target");
  require_same_device(input, target, name, "input", "target");
  require_floating(input, name, "input");
  require_same_dtype(input, target, name, "input", "target");
  const int width = kernels->width();
  require(width == 1 || (input.rank() >= 1 && input.size(-1) == width), name, ": the last axis must have ", width,
          " elements; the shape is ", input.shape());
  check_number(name, "scale", options.scale, input);
  Loss loss{.name = name,
            .kernels = std::move(kernels),
            .reduction = options.reduction,
            .factor = options.scale.is_tensor() ? 1 : options.scale.number(),
            .is_zero = false,
            .weight_row = 1,
            .fused = false};
  loss.weight_row = weight_row(name, *loss.kernels, input, options.weight);
  if (options.normalizer) {
    require(options.reduction == Reduction::mean, name,
            ": a normalizer replaces the count of a mean; the reduction is ", bevel::name(options.reduction));
    check_number(name, "normalizer", *options.normalizer, input);
  }
  if (options.reduction == Reduction::mean && !(options.normalizer && options.normalizer->is_tensor())) {
    const double divisor =
        options.normalizer ? options.normalizer->number() : static_cast<double>(input.numel() / width);
    loss.is_zero = divisor == 0;
    loss.factor = loss.is_zero ? 0 : loss.factor / divisor;
  }
  loss.fused = options.fused && loss.reduces() && needs_history(std::array{input, target});
  return loss;
}

DeviceNumber device_number(const Tensor& tensor) {
  return tensor.defined() ? DeviceNumber{tensor.raw(), tensor.dtype() == f64} : DeviceNumber{};
}

const void* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.raw() : nullptr;
}

// A pass over these tensors that yet computes nothing.
LossPass pass_over(const Loss& loss, const LossTensors& tensors) {
  LossPass pass;
  pass.dtype = tensors.input.dtype();
  pass.count = tensors.input.numel() / loss.kernels->width();
  pass.input = tensors.input.raw();
  pass.target = tensors.target.raw();
  pass.weight = data_or_null(tensors.weight);
  pass.weight_row = loss.weight_row;
  pass.factor = loss.factor;
  pass.is_zero = loss.is_zero;
  pass.scale = device_number(tensors.scale);
  pass.normalizer = device_number(tensors.normalizer);
  return pass;
}

void run(const Loss& loss, const Tensor& input, const LossPass& pass) {
  if (pass.count > 0) on(input.device(), [&](auto backend) { run_pass(backend, *loss.kernels, pass); });
}

// Room for the loss, or for what has its shape; 0 where there is nothing to sum.
Tensor make_value(const Loss& loss, const Tensor& input) {
  TensorOptions options = input.options();
  if (!loss.reduces()) return Tensor::empty(value_shape(*loss.kernels, input), options);
  options.dtype = compute_dtype(options.dtype);
  return input.numel() == 0 ? Tensor::zeros({}, options) : Tensor::empty({}, options);
}

void set_value(LossPass& pass, const Loss& loss, const Tensor& value) {
  pass.value = value.raw();
  pass.value_each = !loss.reduces();
}

void set_upstream(LossPass& pass, const Loss& loss, const Tensor& upstream) {
  pass.upstream = upstream.raw();
  pass.upstream_each = !loss.reduces();
}

LossTensors saved_tensors(const Backward& backward) {
  return {backward.saved(0), backward.saved(1), backward.saved(2), backward.saved(3), backward.saved(4)};
}

// Backward of the backward: by the upstream gradients of d_input and d_target (undefined ones are 0) along the
// direction they form.
Gradients second_backward(const Loss& loss, const Backward& backward, int d_input_output, int d_target_output) {
  const LossTensors tensors = saved_tensors(backward);
  const Tensor upstream = backward.saved(5);
  const auto direction = [&](int output) {
    return output >= 0 && backward.has_grad(output) ? backward.grad(output) : Tensor();
  };
  const Tensor direction_input = direction(d_input_output);
  const Tensor direction_target = direction(d_target_output);
  LossPass pass = pass_over(loss, tensors);
  pass.is_second = true;
  pass.direction_input = data_or_null(direction_input);
  pass.direction_target = data_or_null(direction_target);
  set_upstream(pass, loss, upstream);
  Gradients gradients(3);
  const auto make = [&](int i, const Tensor& like) {
    if (!backward.needs(i)) return static_cast<void*>(nullptr);
    gradients[static_cast<std::size_t>(i)] = Tensor::empty(like.shape(), like.options());
    return gradients[static_cast<std::size_t>(i)].raw();
  };
  pass.d_input = make(0, tensors.input);
  pass.d_target = make(1, tensors.target);
  if (backward.needs(2)) {
    gradients[2] = make_value(loss, tensors.input);
    set_value(pass, loss, gradients[2]);
  }
  run(loss, tensors.input, pass);
  return gradients;
}

// The gradients of input and target, recorded so that they can be differentiated once more.
Gradients first_backward(const Loss& loss, const LossTensors& tensors, const Tensor& upstream, bool wants_input,
                         bool wants_target) {
  LossPass pass = pass_over(loss, tensors);
  set_upstream(pass, loss, upstream);
  Gradients gradients(2);
  std::vector<Tensor*> outputs;
  if (wants_input) {
    gradients[0] = Tensor::empty(tensors.input.shape(), tensors.input.options());
    pass.d_input = gradients[0].raw();
    outputs.push_back(&gradients[0]);
  }
  if (wants_target) {
    gradients[1] = Tensor::empty(tensors.target.shape(), tensors.target.options());
    pass.d_target = gradients[1].raw();
    outputs.push_back(&gradients[1]);
  }
  run(loss, tensors.input, pass);
  const std::array inputs{tensors.input, tensors.target, upstream};
  const std::array saved{tensors.input, tensors.target, tensors.weight, tensors.scale, tensors.normalizer, upstream};
  record(loss.name, outputs, inputs, saved,
         [loss, d_input = wants_input ? 0 : -1, d_target = wants_target ? (wants_input ? 1 : 0) : -1](
             const Backward& b) { return second_backward(loss, b, d_input, d_target); },
         {.differentiable = false});
  return gradients;
}

// Hands on a gradient that the fused pass stored. The upstream gradient of most losses is the 1 of a root: then nothing
// is left to do, and nothing is copied if the node is released now.
Tensor stored_gradient(const Backward& backward, int saved_index) {
  Tensor stored = backward.saved(saved_index);
  const bool is_own = backward.releases() && stored.shared_impl()->buffer.use_count() == 1;
  if (backward.is_unit()) return is_own ? stored : stored.clone();
  Tensor result = is_own ? stored : Tensor::empty(stored.shape(), stored.options());
  if (stored.numel() > 0)
    on(stored.device(), [&](auto backend) {
      scale_gradient(backend, {.dtype = stored.dtype(),
                               .count = stored.numel(),
                               .from = stored.raw(),
                               .factor = backward.grad().raw(),
                               .factor_is_half = false,
                               .to = result.raw()});
    });
  return result;
}

Gradients loss_backward(const Loss& loss, const Backward& backward) {
  if (!loss.fused || grad_enabled())
    return first_backward(loss, saved_tensors(backward), backward.grad(), backward.needs(0), backward.needs(1));
  Gradients gradients(2);
  if (backward.needs(0)) gradients[0] = stored_gradient(backward, saved_d_input);
  if (backward.needs(1)) gradients[1] = stored_gradient(backward, saved_d_target);
  return gradients;
}

}  // namespace

Tensor run_loss(const char* name, std::shared_ptr<const LossKernels> kernels, const Tensor& input_given,
                const Tensor& target_given, const LossOptions& options_given) {
  const Tensor input = autocast_loss_input(input_given);
  const Tensor target = autocast_loss_input(target_given);
  LossOptions options = options_given;
  options.weight = autocast_loss_input(options.weight);
  Loss loss = checked(name, std::move(kernels), input, target, options);
  const LossTensors tensors{input, target, options.weight, options.scale.tensor(),
                            options.normalizer ? options.normalizer->tensor() : Tensor()};
  LossPass pass = pass_over(loss, tensors);
  Tensor value = make_value(loss, input);
  set_value(pass, loss, value);
  Tensor d_input;
  Tensor d_target;
  if (loss.fused && input.requires_grad()) {
    d_input = Tensor::empty(input.shape(), input.options());
    pass.d_input = d_input.raw();
  }
  if (loss.fused && target.requires_grad()) {
    d_target = Tensor::empty(target.shape(), target.options());
    pass.d_target = d_target.raw();
  }
  run(loss, input, pass);
  record(name, value, {input, target},
         {input, target, tensors.weight, tensors.scale, tensors.normalizer, d_input, d_target},
         [loss = std::move(loss)](const Backward& backward) { return loss_backward(loss, backward); });
  return value;
}

}  // namespace bevel::detail
