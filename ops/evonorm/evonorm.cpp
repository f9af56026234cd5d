#include <bevel/core/autograd.h>
#include <bevel/ops/evonorm/detail/problem.h>
#include <bevel/ops/evonorm/evonorm.h>

namespace bevel {

namespace {

void check_parameter(const Tensor& parameter, const char* name, const Tensor& x, std::int64_t channels) {
  require(parameter.defined(), "evonorm: ", name, " is undefined");
  const Dtype dtype = compute_dtype(x.dtype());
  require(parameter.shape() == Shape{channels}, "evonorm: ", name, " must have one element for each of the ", channels,
          " channels of the input of shape ", x.shape(), "; its shape is ", parameter.shape());
  require(parameter.dtype() == dtype, "evonorm: ", name, " must be ", dtype, " for an input of ", x.dtype(), "; it is ",
          parameter.dtype());
  require_same_device(x, parameter, "evonorm", "input", name);
}

void check_v(const Tensor& v, const Tensor& x, std::int64_t channels, const EvoNormOptions& options) {
  if (!has_v(options.variant))
    require(!v.defined(), "evonorm: ", options.variant, " has no parameter v, but one was given");
  else if (v.defined() || options.nonlinearity)
    check_parameter(v, "v", x, channels);
}

void check_running_var(const Tensor& running_var, const Tensor& x, std::int64_t channels,
                       const EvoNormOptions& options) {
  if (!has_batch_term(options.variant)) {
    require(!running_var.defined(), "evonorm: ", options.variant, " has no running variance, but one was given");
    return;
  }
  if (!running_var.defined()) {
    require(options.training || !options.nonlinearity, "evonorm: ", options.variant,
            " needs the running variance in evaluation; it is undefined");
    return;
  }
  check_parameter(running_var, "running_var", x, channels);
  require(!running_var.requires_grad(), "evonorm: running_var must not require a gradient");
}

evo::Problem check(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& v, const Tensor& running_var,
                   const EvoNormOptions& options) {
  require_floating(x, "evonorm", "input");
  require_rank(x, 4, "evonorm", "input");
  require(options.eps >= 0, "evonorm: eps must not be negative; got ", options.eps);
  require(options.momentum >= 0 && options.momentum <= 1, "evonorm: momentum must be between 0 and 1; got ",
          options.momentum);
  const bool nchw = options.layout == Layout::nchw;
  const std::int64_t channels = x.size(nchw ? 1 : 3);
  check_parameter(gamma, "gamma", x, channels);
  check_parameter(beta, "beta", x, channels);
  check_v(v, x, channels, options);
  check_running_var(running_var, x, channels, options);
  if (!has_batch_term(options.variant))
    require(options.groups >= 1 && channels % options.groups == 0, "evonorm: ", options.groups,
            " groups do not divide the ", channels, " channels of the ", options.layout, " input of shape ", x.shape());
  return {.variant = options.variant,
          .layout = options.layout,
          .dtype = x.dtype(),
          .samples = x.size(0),
          .pixels = nchw ? x.size(2) * x.size(3) : x.size(1) * x.size(2),
          .channels = channels,
          .groups = options.groups,
          .eps = options.eps,
          .momentum = options.momentum,
          .training = options.training,
          .affine = !options.nonlinearity};
}

// Input gradients in the order x, gamma, beta, v.
Gradients backward_of(const Backward& b, const evo::Problem& problem, bool with_v, bool with_batch) {
  evo::BackwardArguments arguments{.x = b.saved(0), .gamma = b.saved(1), .dy = b.grad()};
  const Tensor& gamma = arguments.gamma;
  int next = 2;
  if (with_v) arguments.v = b.saved(next++);
  const bool empty = arguments.x.numel() == 0;
  if (b.needs(0)) arguments.dx = Tensor::empty(arguments.x.shape(), arguments.x.options());
  const auto parameter_gradient = [&] {
    return empty ? Tensor::zeros(gamma.shape(), gamma.options()) : Tensor::empty(gamma.shape(), gamma.options());
  };
  arguments.dgamma = parameter_gradient();
  arguments.dbeta = parameter_gradient();
  if (with_v) arguments.dv = parameter_gradient();
  if (!empty) {
    arguments.statistics.slice = b.saved(next++);
    if (with_batch) arguments.statistics.batch = b.saved(next++);
    on(arguments.x.device(), [&](auto backend) { evo::backward(backend, problem, arguments); });
  }
  return {arguments.dx, arguments.dgamma, arguments.dbeta, arguments.dv};
}

}  // namespace

Tensor evonorm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& v, const Tensor& running_var,
               const EvoNormOptions& options) {
  const evo::Problem problem = check(x, gamma, beta, v, running_var, options);
  Tensor y = Tensor::empty(x.shape(), x.options());
  evo::Statistics statistics;
  if (x.numel() > 0) {
    const evo::ForwardArguments arguments{
        .x = x, .gamma = gamma, .beta = beta, .v = v, .running_var = running_var, .y = y};
    statistics = on(x.device(), [&](auto backend) { return evo::forward(backend, problem, arguments); });
    if (problem.training && !problem.affine && running_var.defined()) running_var.mark_changed();
  }
  std::vector<Tensor> saved{x, gamma};
  const bool with_v = v.defined() && !problem.affine;
  if (with_v) saved.push_back(v);
  if (statistics.slice.defined()) saved.push_back(statistics.slice);
  const bool with_batch = statistics.batch.defined();
  if (with_batch) saved.push_back(statistics.batch);
  Tensor* const outputs[] = {&y};
  const Tensor inputs[] = {x, gamma, beta, with_v ? v : Tensor()};
  record("evonorm", outputs, inputs, saved,
         [problem, with_v, with_batch](const Backward& b) { return backward_of(b, problem, with_v, with_batch); },
         {.differentiable = false});
  return y;
}

}  // namespace bevel
