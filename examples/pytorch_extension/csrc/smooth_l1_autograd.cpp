// Smooth L1 as operators of PyTorch: registration, autograd, autocast.
//
// Where a gradient will be asked for and the loss is reduced, one pass computes the loss and its gradient. Backward
// then has nothing left to do but to multiply by the upstream gradient, and not even that where it is 1; it never waits
// to learn which.
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "backward.h"
#include "registration.h"
#include "smooth_l1.h"

namespace bevel_torch {

namespace {

using at::Tensor;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// The operators through the dispatcher, so that whatever records or transforms tensors sees them.
template <class Function>
auto typed(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

Tensor call_loss(const Tensor& input, const Tensor& target, int64_t reduction, double beta) {
  static const auto op = typed<decltype(smooth_l1_loss)>("bevel::smooth_l1_loss");
  return op.call(input, target, reduction, beta);
}
std::tuple<Tensor, Tensor> call_with_gradient(const Tensor& input, const Tensor& target, int64_t reduction,
                                              double beta) {
  static const auto op = typed<decltype(smooth_l1_loss_with_gradient)>("bevel::_smooth_l1_loss_with_gradient");
  return op.call(input, target, reduction, beta);
}
Tensor call_backward(const Tensor& grad, const Tensor& input, const Tensor& target, int64_t reduction, double beta) {
  static const auto op = typed<decltype(smooth_l1_loss_backward)>("bevel::_smooth_l1_loss_backward");
  return op.call(grad, input, target, reduction, beta);
}
std::tuple<Tensor, Tensor> call_double_backward(const Tensor& direction, const Tensor& grad, const Tensor& input,
                                                const Tensor& target, int64_t reduction, double beta) {
  static const auto op = typed<decltype(smooth_l1_loss_double_backward)>("bevel::_smooth_l1_loss_double_backward");
  return op.call(direction, grad, input, target, reduction, beta);
}

// What both nodes know: the operands, and whether the graph is released now.
struct LossNode : public torch::autograd::Node {
  SavedVariable input, target;
  int64_t reduction = 0;
  double beta = 1;
  bool releases = false;
  bool released = false;

  void save(const Tensor& x, const Tensor& t, int64_t how, double b) {
    input = SavedVariable(x, false);
    target = SavedVariable(t, false);
    reduction = how;
    beta = b;
  }
  void will_release_variables() override { releases = true; }
  void release_variables() override {
    const std::lock_guard lock(mutex_);
    input.reset_data();
    target.reset_data();
    released = true;
  }
  // The gradients of input and target, which sum to 0.
  void hand_out(variable_list& grads, std::size_t first, Tensor d_input) {
    if (task_should_compute_output(first + 1)) grads[first + 1] = d_input.neg();
    if (task_should_compute_output(first)) grads[first] = std::move(d_input);
  }
};

// d(gradient): outputs are the gradients of grad, input and target.
struct SmoothL1LossBackwardBackward final : public LossNode {
  SavedVariable grad;

  std::string name() const override { return "BevelSmoothL1LossBackwardBackward"; }
  void release_variables() override {
    LossNode::release_variables();
    grad.reset_data();
  }
  variable_list apply(variable_list&& directions) override {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!released, torch::autograd::ERR_BACKWARD_TWICE);
    variable_list grads(3);
    if (!directions[0].defined()) return grads;
    auto [d_grad, d_input] =
        call_double_backward(directions[0], grad.unpack(), input.unpack(), target.unpack(), reduction, beta);
    if (task_should_compute_output(0)) grads[0] = std::move(d_grad);
    hand_out(grads, 1, std::move(d_input));
    return grads;
  }
};

struct SmoothL1LossBackward final : public LossNode {
  Tensor gradient;  // with respect to the input, for an upstream gradient of 1; undefined where nothing was reduced

  std::string name() const override { return "BevelSmoothL1LossBackward"; }
  void release_variables() override {
    LossNode::release_variables();
    gradient.reset();
  }
  variable_list apply(variable_list&& upstream) override {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!released, torch::autograd::ERR_BACKWARD_TWICE);
    variable_list grads(2);
    if (upstream[0].defined()) hand_out(grads, 0, d_input(upstream[0]));
    return grads;
  }

 private:
  Tensor d_input(const Tensor& upstream) {
    if (!gradient.defined() || at::GradMode::is_enabled())
      return call_backward(upstream, input.unpack(), target.unpack(), reduction, beta);
    if (!releases || !is_plain(gradient) || !is_plain(upstream)) return gradient * upstream;
    if (!is_known_one(upstream)) scale_own_gradient(gradient, upstream);
    return std::move(gradient);
  }
};

template <class Node>
std::shared_ptr<Node> make_node(torch::autograd::edge_list edges) {
  std::shared_ptr<Node> node(new Node(), torch::autograd::deleteNode);
  node->set_next_edges(std::move(edges));
  return node;
}

Tensor backward_autograd(const Tensor& grad, const Tensor& input, const Tensor& target, int64_t reduction,
                         double beta) {
  std::shared_ptr<SmoothL1LossBackwardBackward> node;
  if (torch::autograd::compute_requires_grad(grad, input, target)) {
    node = make_node<SmoothL1LossBackwardBackward>(torch::autograd::collect_next_edges(grad, input, target));
    node->save(input, target, reduction, beta);
    node->grad = SavedVariable(grad, false);
  }
  Tensor result;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    result = call_backward(grad, input, target, reduction, beta);
  }
  if (node) torch::autograd::set_history(result, node);
  return result;
}

// Losses are computed in f32, as PyTorch's own under autocast.
template <c10::DeviceType device>
Tensor loss_autocast(const Tensor& input, const Tensor& target, int64_t reduction, double beta) {
  const c10::impl::ExcludeDispatchKeyGuard without(at::autocast::get_autocast_dispatch_key_from_device_type(device));
  return call_loss(at::autocast::cached_cast(at::kFloat, input, device),
                   at::autocast::cached_cast(at::kFloat, target, device), reduction, beta);
}

void register_kernels(torch::Library& m) {
  m.impl("smooth_l1_loss", smooth_l1_loss);
  m.impl("_smooth_l1_loss_with_gradient", smooth_l1_loss_with_gradient);
  m.impl("_smooth_l1_loss_backward", smooth_l1_loss_backward);
  m.impl("_smooth_l1_loss_double_backward", smooth_l1_loss_double_backward);
}

Tensor loss_with_history(const Tensor& input, const Tensor& target, int64_t reduction, double beta) {
  // Kernels of plain tensors are called directly: nothing on the way could have another opinion.
  const bool direct = is_plain(input) && is_plain(target);
  if (!torch::autograd::compute_requires_grad(input, target)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return direct ? bevel_torch::smooth_l1_loss(input, target, reduction, beta)
                  : call_loss(input, target, reduction, beta);
  }
  const auto [x, t] = checked_operands(input, target, reduction, beta);
  // First the kernel, then the node: the GPU need not wait for it.
  Tensor loss, gradient;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    if (reduction == at::Reduction::None)
      loss = direct ? bevel_torch::smooth_l1_loss(x, t, reduction, beta) : call_loss(x, t, reduction, beta);
    else
      std::tie(loss, gradient) =
          direct ? smooth_l1_loss_with_gradient(x, t, reduction, beta) : call_with_gradient(x, t, reduction, beta);
  }
  const auto node = make_node<SmoothL1LossBackward>(torch::autograd::collect_next_edges(x, t));
  node->save(x, t, reduction, beta);
  node->gradient = std::move(gradient);
  torch::autograd::set_history(loss, node);
  return loss;
}

// Forward mode: the loss's derivative along the tangents of its operands.
Tensor tangent_of(const Tensor& loss, const Tensor& input, const Tensor& target, int64_t reduction, double beta) {
  const auto [x, t] = checked_operands(input, target, reduction, beta);
  const Tensor &dx = x._fw_grad(0), &dt = t._fw_grad(0);
  const Tensor direction = !dt.defined() ? dx : !dx.defined() ? dt.neg() : dx - dt;
  return std::get<0>(call_double_backward(direction, at::ones_like(loss._fw_primal(0)), x._fw_primal(0),
                                          t._fw_primal(0), reduction, beta));
}

const DeviceKernels kernels(register_kernels);

}  // namespace

Tensor smooth_l1_loss_autograd(const Tensor& input, const Tensor& target, int64_t reduction, double beta) {
  const Tensor loss = loss_with_history(input, target, reduction, beta);
  if (input._fw_grad(0).defined() || target._fw_grad(0).defined())
    loss._set_fw_grad(tangent_of(loss, input, target, reduction, beta), 0, false);
  return loss;
}

TORCH_LIBRARY_FRAGMENT(bevel, m) {
  m.def("smooth_l1_loss(Tensor input, Tensor target, int reduction=1, float beta=1.0) -> Tensor",
        {at::Tag::pt2_compliant_tag});
  m.def("_smooth_l1_loss_with_gradient(Tensor input, Tensor target, int reduction, float beta) -> (Tensor, Tensor)",
        {at::Tag::pt2_compliant_tag});
  m.def("_smooth_l1_loss_backward(Tensor grad, Tensor input, Tensor target, int reduction, float beta) -> Tensor",
        {at::Tag::pt2_compliant_tag});
  m.def(
      "_smooth_l1_loss_double_backward(Tensor direction, Tensor grad, Tensor input, Tensor target, int reduction, "
      "float beta) -> (Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(bevel, Autograd, m) {
  m.impl("smooth_l1_loss", smooth_l1_loss_autograd);
  m.impl("_smooth_l1_loss_with_gradient", torch::autograd::autogradNotImplementedFallback());
  m.impl("_smooth_l1_loss_backward", backward_autograd);
  m.impl("_smooth_l1_loss_double_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(bevel, AutocastCPU, m) {
  m.impl("smooth_l1_loss", loss_autocast<c10::DeviceType::CPU>);
}
TORCH_LIBRARY_IMPL(bevel, AutocastCUDA, m) {
  m.impl("smooth_l1_loss", loss_autocast<c10::DeviceType::CUDA>);
}

}  // namespace bevel_torch
