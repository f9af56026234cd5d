#include <bevel/core/autograd.h>
#include <bevel/core/hostdevice.h>
#include <bevel/nn/detail/scaler_kernels.h>
#include <bevel/nn/gradient_scaler.h>

#include <cmath>

namespace bevel::nn {

namespace detail {

void find_not_finite(Cpu, std::span<const Tensor> gradients, const Tensor& counts) {
  for (const Tensor& gradient : gradients)
    visit_float_double(gradient.dtype(), "GradientScaler", [&]<class T>() {
      const T* const values = gradient.data<T>();
      // A sum of zeros that stays zero only if every value is finite: a loop that vectorises.
      T sum = 0;
      for (std::int64_t i = 0; i < gradient.numel(); ++i) sum += values[i] * T(0);
      if (!(sum == T(0))) counts.data<std::int64_t>()[0] = 1;
    });
}

void update_scale(Cpu, const ScalerRule& rule, const Tensor& scale, const Tensor& factor, const Tensor& counts) {
  apply_rule(rule, *scale.data<float>(), *factor.data<float>(), counts.data<std::int64_t>());
}

}  // namespace detail

GradientScaler::GradientScaler(std::vector<Tensor> parameters, const GradientScalerOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  const auto positive = [](const char* name, double value) {
    require(std::isfinite(value) && value > 0, "GradientScaler: ", name, " must be finite and positive; got ", value);
  };
  positive("initial", options.initial);
  positive("growth", options.growth);
  positive("backoff", options.backoff);
  require(options.growth >= 1, "GradientScaler: growth must be at least 1; got ", options.growth);
  require(options.backoff <= 1, "GradientScaler: backoff must be at most 1; got ", options.backoff);
  require(options.interval >= 1, "GradientScaler: interval must be at least 1; got ", options.interval);
  require(!parameters_.empty(), "GradientScaler: no parameters were given");
  const Device device = parameters_.front().device();
  for (const Tensor& parameter : parameters_)
    require(parameter.device() == device && (parameter.dtype() == f32 || parameter.dtype() == f64),
            "GradientScaler: parameters must be f32 or f64 and on one device; one is ", parameter.dtype(), " on ",
            parameter.device(), ", the first is on ", device);
  scale_ = Tensor::scalar(options.initial, {.device = device});
  factor_ = Tensor::scalar(1 / options.initial, {.device = device});
  counts_ = Tensor::zeros({3}, {.dtype = i64, .device = device});
}

void GradientScaler::step(optim::Optimizer& optimizer) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters_) {
    require(parameter.device() == scale_.device(), "GradientScaler: a parameter has moved from ", scale_.device(),
            " to ", parameter.device(), "; make the scaler after moving them");
    if (const Tensor gradient = parameter.grad(); gradient.defined() && gradient.numel() > 0)
      gradients.push_back(gradient);
  }
  const detail::ScalerRule rule{static_cast<float>(options_.growth), static_cast<float>(options_.backoff),
                                options_.interval};
  on(scale_.device(), [&](auto backend) {
    detail::find_not_finite(backend, gradients, counts_);
    detail::update_scale(backend, rule, scale_, factor_, counts_);
  });
  for (const Tensor& changed : {scale_, factor_, counts_}) changed.mark_changed();
  optimizer.step({.factor = factor_});
}

std::int64_t GradientScaler::void_steps() const {
  return static_cast<std::int64_t>(counts_.to_vector()[2]);
}

NamedTensors GradientScaler::state() const {
  return {{"scale", scale_.clone()}, {"counts", counts_.clone()}};
}

void GradientScaler::load_state(std::span<const NamedTensor> state) {
  const bool fits = state.size() == 2 && state[0].name == "scale" && state[1].name == "counts" &&
                    state[0].tensor.shape() == scale_.shape() && state[0].tensor.dtype() == f32 &&
                    state[1].tensor.shape() == counts_.shape() && state[1].tensor.dtype() == i64;
  require(fits, "GradientScaler::load_state: expected scale (f32 []) and counts (i64 [3]); got ", state.size(),
          " tensors of another kind");
  scale_.copy_from(state[0].tensor);
  counts_.copy_from(state[1].tensor);
}

}  // namespace bevel::nn
