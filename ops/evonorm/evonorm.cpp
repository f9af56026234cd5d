#include <bevel/core/autograd.h>
#include <bevel/core/recompute.h>
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

// How many groups the channels have; B variants have none, and any number will do.
std::int64_t group_count(const Tensor& x, std::int64_t channels, const EvoNormOptions& options) {
  if (has_batch_term(options.variant)) return 1;
  if (options.group_size != 0) {
    require(options.group_size > 0 && channels % options.group_size == 0, "evonorm: groups of ", options.group_size,
            " channels do not divide the ", channels, " channels of the ", options.layout, " input of shape ",
            x.shape());
    return channels / options.group_size;
  }
  require(options.groups >= 1 && channels % options.groups == 0, "evonorm: ", options.groups,
          " groups do not divide the ", channels, " channels of the ", options.layout, " input of shape ", x.shape());
  return options.groups;
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
  return {.variant = options.variant,
          .layout = options.layout,
          .dtype = x.dtype(),
          .samples = x.size(0),
          .pixels = nchw ? x.size(2) * x.size(3) : x.size(1) * x.size(2),
          .channels = channels,
          .groups = group_count(x, channels, options),
          .eps = options.eps,
          .momentum = options.momentum,
          .training = options.training,
          .affine = !options.nonlinearity};
}

const void* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.raw() : nullptr;
}
void* raw_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.raw() : nullptr;
}

Tensor bytes_beside(const Tensor& x, std::size_t bytes) {
  return Tensor::empty({static_cast<std::int64_t>(bytes)}, {.dtype = u8, .device = x.device()});
}

evo::Workspace workspace_of(const Tensor& bytes) {
  return {bytes.raw(), static_cast<std::size_t>(bytes.bytes())};
}

// Returns the statistics.
Tensor run_forward(const evo::Problem& problem, const Tensor& x, raw::EvoNormForward arrays) {
  return on(x.device(), [&](auto backend) {
    const raw::EvoNormMemory memory = evo::memory(backend, problem);
    Tensor statistics = bytes_beside(x, memory.statistics);
    const Tensor workspace = bytes_beside(x, memory.forward_workspace);
    arrays.statistics = statistics.raw();
    evo::forward(backend, problem, arrays, workspace_of(workspace));
    return statistics;
  });
}

// The result once more, from what it was computed from. In training running_var is left alone.
Tensor again(const evo::Problem& problem, std::span<const Tensor> kept) {
  const Tensor& x = kept[0];
  Tensor y = Tensor::empty(x.shape(), x.options());
  run_forward(problem, x,
              {.x = x.raw(),
               .gamma = kept[1].raw(),
               .beta = kept[2].raw(),
               .v = data_or_null(kept[3]),
               .running_var = raw_or_null(kept[4]),
               .y = y.raw(),
               .statistics = nullptr});
  return y;
}

void run_backward(const evo::Problem& problem, const Tensor& x, const raw::EvoNormBackward& arrays) {
  on(x.device(), [&](auto backend) {
    const Tensor workspace = bytes_beside(x, evo::memory(backend, problem).backward_workspace);
    evo::backward(backend, problem, arrays, workspace_of(workspace));
  });
}

// Input gradients in the order x, gamma, beta, v.
Gradients backward_of(const Backward& b, const evo::Problem& problem, bool with_v) {
  const Tensor x = b.saved(0), gamma = b.saved(1), v = with_v ? b.saved(2) : Tensor();
  const bool empty = x.numel() == 0;
  const Tensor dx = b.needs(0) ? Tensor::empty(x.shape(), x.options()) : Tensor();
  const auto parameter_gradient = [&] {
    return empty ? Tensor::zeros(gamma.shape(), gamma.options()) : Tensor::empty(gamma.shape(), gamma.options());
  };
  const Tensor dgamma = parameter_gradient(), dbeta = parameter_gradient();
  const Tensor dv = with_v ? parameter_gradient() : Tensor();
  if (!empty)
    run_backward(problem, x,
                 {.x = x.raw(),
                  .gamma = gamma.raw(),
                  .v = data_or_null(v),
                  .statistics = b.saved(with_v ? 3 : 2).raw(),
                  .dy = b.grad().raw(),
                  .dx = raw_or_null(dx),
                  .dgamma = dgamma.raw(),
                  .dbeta = dbeta.raw(),
                  .dv = raw_or_null(dv)});
  return {dx, dgamma, dbeta, dv};
}

}  // namespace

Tensor evonorm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& v, const Tensor& running_var,
               const EvoNormOptions& options) {
  const evo::Problem problem = check(x, gamma, beta, v, running_var, options);
  Tensor y = Tensor::empty(x.shape(), x.options());
  const bool with_v = v.defined() && !problem.affine;
  std::vector<Tensor> saved{x, gamma};
  if (with_v) saved.push_back(v);
  if (x.numel() > 0) {
    saved.push_back(run_forward(problem, x,
                                {.x = x.raw(),
                                 .gamma = gamma.raw(),
                                 .beta = beta.raw(),
                                 .v = data_or_null(v),
                                 .running_var = raw_or_null(running_var),
                                 .y = y.raw(),
                                 .statistics = nullptr}));
    if (problem.training && !problem.affine && running_var.defined()) running_var.mark_changed();
  }
  Tensor* const outputs[] = {&y};
  const Tensor inputs[] = {x, gamma, beta, with_v ? v : Tensor()};
  record("evonorm", outputs, inputs, saved,
         [problem, with_v](const Backward& b) { return backward_of(b, problem, with_v); }, {.differentiable = false});
  if (options.recompute && x.numel() > 0)
    recompute("evonorm again", y, {x, gamma, beta, v, problem.training ? Tensor() : running_var},
              [problem](std::span<const Tensor> kept) { return again(problem, kept); });
  return y;
}

}  // namespace bevel
