// EvoNorm as operators of PyTorch.
#include <bevel/ops/evonorm/raw.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <tuple>

#include "device.h"
#include "registration.h"
#include "tensors.h"

namespace bevel_torch {

namespace {

namespace raw = bevel::raw;
using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

// Room for the statistics of a call, in rows for each slice (a group or channel) of each sample and of the batch; the
// fake kernel in bevel_torch/fake.py allocates the same.
constexpr int64_t statistics_rows = 16;

struct Options {
  int64_t variant, groups;
  double eps, momentum;
  bool training, nonlinearity;
};

raw::EvoNormProblem problem_of(const Tensor& x, const Options& o) {
  TORCH_CHECK(o.variant >= 0 && o.variant <= 5, "bevel::evonorm: there is no variant ", o.variant);
  const bool nhwc = x.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
  return {.variant = static_cast<bevel::EvoNorm>(o.variant),
          .layout = nhwc ? bevel::Layout::nhwc : bevel::Layout::nchw,
          .dtype = dtype_of(x, "evonorm"),
          .samples = x.size(0),
          .pixels = x.size(2) * x.size(3),
          .channels = x.size(1),
          .groups = o.groups,
          .eps = o.eps,
          .momentum = o.momentum,
          .training = o.training,
          .affine = !o.nonlinearity};
}

void check_parameter(const Tensor& parameter, const char* name, const Tensor& x) {
  TORCH_CHECK(parameter.dim() == 1 && parameter.size(0) == x.size(1), "bevel::evonorm: ", name, " must have the ",
              x.size(1), " channels of the input, got size ", parameter.sizes());
  TORCH_CHECK(parameter.device() == x.device(), "Expected all tensors to be on the same device, but the input is on ",
              x.device(), " and ", name, " is on ", parameter.device());
  TORCH_CHECK(parameter.scalar_type() == compute_type(x.scalar_type()), "bevel::evonorm: ", name, " must be ",
              compute_type(x.scalar_type()), " for an input of ", x.scalar_type(), ", got ", parameter.scalar_type());
  TORCH_CHECK(parameter.is_contiguous(), "bevel::evonorm: ", name, " must be contiguous");
}

// The optional tensor if the variant wants it, checked; undefined otherwise.
Tensor optional_parameter(const MaybeTensor& parameter, const char* name, const Tensor& x, bool wanted) {
  TORCH_CHECK(!wanted || parameter, "bevel::evonorm: ", name, " is missing");
  if (!wanted) return {};
  check_parameter(*parameter, name, x);
  return *parameter;
}

Tensor make_statistics(const raw::EvoNormProblem& p, const Tensor& x, const raw::EvoNormMemory& memory) {
  const at::ScalarType type = x.is_cuda() ? compute_type(x.scalar_type()) : at::kDouble;
  Tensor statistics = at::empty({p.samples + 1, p.slices(), statistics_rows}, x.options().dtype(type));
  TORCH_INTERNAL_ASSERT(statistics.nbytes() >= memory.statistics);
  return statistics;
}

template <class Where>
std::tuple<Tensor, Tensor> forward_on(const raw::EvoNormProblem& p, const Tensor& x, raw::EvoNormForward arrays) {
  const Where where(x);
  const auto memory = where.with_memory(0, [&](const auto& w) { return raw::evonorm_memory(w, p); });
  const Tensor y = at::empty_like(x), statistics = make_statistics(p, x, memory);
  arrays.y = y.data_ptr();
  arrays.statistics = statistics.data_ptr();
  where.with_memory(memory.forward_workspace, [&](const auto& w) { raw::evonorm_forward(w, p, arrays); });
  return {y, statistics};
}

template <class Where>
void backward_on(const raw::EvoNormProblem& p, const Tensor& x, const raw::EvoNormBackward& arrays) {
  const Where where(x);
  const auto memory = where.with_memory(0, [&](const auto& w) { return raw::evonorm_memory(w, p); });
  where.with_memory(memory.backward_workspace, [&](const auto& w) { raw::evonorm_backward(w, p, arrays); });
}

// --- kernels ---

std::tuple<Tensor, Tensor> evonorm_forward(const Tensor& input, const Tensor& gamma, const Tensor& beta,
                                           const MaybeTensor& v, const MaybeTensor& running_var, int64_t variant,
                                           int64_t groups, double eps, double momentum, bool training,
                                           bool nonlinearity) {
  TORCH_CHECK(input.dim() == 4, "expected 4D input (got ", input.dim(), "D input)");
  const Tensor x = dense(input);
  const raw::EvoNormProblem p = problem_of(x, {variant, groups, eps, momentum, training, nonlinearity});
  check_parameter(gamma, "weight", x);
  check_parameter(beta, "bias", x);
  const Tensor own_v = optional_parameter(v, "v", x, has_v(p.variant) && nonlinearity);
  const bool has_batch = has_batch_term(p.variant) && nonlinearity;
  const Tensor running = optional_parameter(running_var, "running_var", x, has_batch && (running_var || !training));
  if (x.numel() == 0) {
    const at::ScalarType type = x.is_cuda() ? compute_type(x.scalar_type()) : at::kDouble;
    return {at::empty_like(x), at::empty({p.samples + 1, p.slices(), statistics_rows}, x.options().dtype(type))};
  }
  const raw::EvoNormForward arrays{.x = x.const_data_ptr(),
                                   .gamma = gamma.const_data_ptr(),
                                   .beta = beta.const_data_ptr(),
                                   .v = const_data(own_v),
                                   .running_var = data(running),
                                   .y = nullptr,
                                   .statistics = nullptr};
#if defined(BEVEL_TORCH_CUDA)
  if (x.is_cuda()) return forward_on<OnCuda>(p, x, arrays);
#endif
  return forward_on<OnCpu>(p, x, arrays);
}

Tensor evonorm(const Tensor& input, const Tensor& gamma, const Tensor& beta, const MaybeTensor& v,
               const MaybeTensor& running_var, int64_t variant, int64_t groups, double eps, double momentum,
               bool training, bool nonlinearity) {
  return std::get<0>(
      evonorm_forward(input, gamma, beta, v, running_var, variant, groups, eps, momentum, training, nonlinearity));
}

// The gradients of input, gamma, beta and v; the last has no elements for variants without v.
std::tuple<Tensor, Tensor, Tensor, Tensor> evonorm_backward(const Tensor& grad, const Tensor& input,
                                                            const Tensor& gamma, const MaybeTensor& v,
                                                            const Tensor& statistics, int64_t variant, int64_t groups,
                                                            double eps, bool training, bool nonlinearity) {
  const Tensor x = dense(input), dy = dense_like(grad, x);
  const raw::EvoNormProblem p = problem_of(x, {variant, groups, eps, 0, training, nonlinearity});
  const bool with_v = has_v(p.variant) && nonlinearity;
  const Tensor own_v = optional_parameter(v, "v", x, with_v);
  if (x.numel() == 0)
    return {at::empty_like(x), at::zeros_like(gamma), at::zeros_like(gamma),
            with_v ? at::zeros_like(gamma) : at::empty({0}, gamma.options())};
  const Tensor dx = at::empty_like(x), dgamma = at::empty_like(gamma), dbeta = at::empty_like(gamma);
  const Tensor dv = with_v ? at::empty_like(gamma) : at::empty({0}, gamma.options());
  const raw::EvoNormBackward arrays{.x = x.const_data_ptr(),
                                    .gamma = gamma.const_data_ptr(),
                                    .v = const_data(own_v),
                                    .statistics = statistics.const_data_ptr(),
                                    .dy = dy.const_data_ptr(),
                                    .dx = dx.data_ptr(),
                                    .dgamma = dgamma.data_ptr(),
                                    .dbeta = dbeta.data_ptr(),
                                    .dv = with_v ? dv.data_ptr() : nullptr};
#if defined(BEVEL_TORCH_CUDA)
  if (x.is_cuda()) {
    backward_on<OnCuda>(p, x, arrays);
    return {dx, dgamma, dbeta, dv};
  }
#endif
  backward_on<OnCpu>(p, x, arrays);
  return {dx, dgamma, dbeta, dv};
}

// --- autograd ---

std::tuple<Tensor, Tensor> call_forward(const Tensor& input, const Tensor& gamma, const Tensor& beta,
                                        const MaybeTensor& v, const MaybeTensor& running_var, const Options& o) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("bevel::_evonorm_forward", "").typed<decltype(evonorm_forward)>();
  return op.call(input, gamma, beta, v, running_var, o.variant, o.groups, o.eps, o.momentum, o.training,
                 o.nonlinearity);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> call_backward(const Tensor& grad, const Tensor& input, const Tensor& gamma,
                                                         const MaybeTensor& v, const Tensor& statistics,
                                                         const Options& o) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("bevel::_evonorm_backward", "")
                             .typed<decltype(evonorm_backward)>();
  return op.call(grad, input, gamma, v, statistics, o.variant, o.groups, o.eps, o.training, o.nonlinearity);
}

class EvoNormFunction : public torch::autograd::Function<EvoNormFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& input, const Tensor& gamma,
                        const Tensor& beta, const MaybeTensor& v, const MaybeTensor& running_var, const Options& o) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [y, statistics] = call_forward(input, gamma, beta, v, running_var, o);
    context->save_for_backward({input, gamma, v ? *v : Tensor(), statistics});
    auto& data = context->saved_data;
    data["variant"] = o.variant;
    data["groups"] = o.groups;
    data["eps"] = o.eps;
    data["training"] = o.training;
    data["nonlinearity"] = o.nonlinearity;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto& data = context->saved_data;
    const Options o{data.at("variant").toInt(),   data.at("groups").toInt(),       data.at("eps").toDouble(), 0,
                    data.at("training").toBool(), data.at("nonlinearity").toBool()};
    const Tensor& v = saved[2];
    auto [dx, dgamma, dbeta, dv] =
        call_backward(grads[0], saved[0], saved[1], v.defined() ? MaybeTensor(v) : std::nullopt, saved[3], o);
    return {dx, dgamma, dbeta, v.defined() && dv.sym_numel() > 0 ? dv : Tensor(), Tensor(), Tensor()};
  }
};

Tensor evonorm_autograd(const Tensor& input, const Tensor& gamma, const Tensor& beta, const MaybeTensor& v,
                        const MaybeTensor& running_var, int64_t variant, int64_t groups, double eps, double momentum,
                        bool training, bool nonlinearity) {
  const Tensor y = EvoNormFunction::apply(input, gamma, beta, v, running_var,
                                          Options{variant, groups, eps, momentum, training, nonlinearity});
  if (training && nonlinearity && running_var && variant <= 2) torch::autograd::impl::bump_version(*running_var);
  return y;
}

void register_kernels(torch::Library& m) {
  m.impl("evonorm", evonorm);
  m.impl("_evonorm_forward", evonorm_forward);
  m.impl("_evonorm_backward", evonorm_backward);
}

const DeviceKernels kernels(register_kernels);

}  // namespace

TORCH_LIBRARY_FRAGMENT(bevel, m) {
  m.def(
      "evonorm(Tensor input, Tensor gamma, Tensor beta, Tensor? v, Tensor(a!)? running_var, int variant, int groups, "
      "float eps, float momentum, bool training, bool nonlinearity=True) -> Tensor",
      {at::Tag::pt2_compliant_tag});
  m.def(
      "_evonorm_forward(Tensor input, Tensor gamma, Tensor beta, Tensor? v, Tensor(a!)? running_var, int variant, "
      "int groups, float eps, float momentum, bool training, bool nonlinearity) -> (Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
  m.def(
      "_evonorm_backward(Tensor grad, Tensor input, Tensor gamma, Tensor? v, Tensor statistics, int variant, "
      "int groups, float eps, bool training, bool nonlinearity) -> (Tensor, Tensor, Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(bevel, Autograd, m) {
  m.impl("evonorm", evonorm_autograd);
  m.impl("_evonorm_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace bevel_torch
