// Smooth L1 on plain tensors: from at::Tensor to Bevel's kernel-level entry.
#include <bevel/ops/loss/raw.h>
#include <bevel/ops/loss/smooth_l1_formula.h>

#include <limits>

#include "device.h"
#include "smooth_l1.h"

namespace bevel_torch {

std::tuple<at::Tensor, at::Tensor> checked_operands(const at::Tensor& input, const at::Tensor& target,
                                                    int64_t reduction, double beta) {
  TORCH_CHECK(beta >= 0 && beta <= std::numeric_limits<double>::max(),
              "smooth_l1_loss does not support negative or infinite values for beta; got ", beta);
  TORCH_CHECK_VALUE(reduction >= at::Reduction::None && reduction < at::Reduction::END, reduction,
                    " is not a valid value for reduction");
  TORCH_CHECK(input.device() == target.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", input.device(),
              " and ", target.device(), "!");
  TORCH_CHECK(input.sym_sizes() == target.sym_sizes(), "bevel::smooth_l1_loss: the sizes must be equal; input has ",
              input.sym_sizes(), ", target has ", target.sym_sizes());
  if (input.scalar_type() == target.scalar_type()) [[likely]]
    return {input, target};
  const at::ScalarType common = at::result_type(input, target);
  return {input.to(common), target.to(common)};
}

namespace {

namespace raw = bevel::raw;

struct Loss {
  int64_t reduction;
  bevel::formula::SmoothL1 formula;

  bool reduces() const { return reduction != at::Reduction::None; }
};

raw::LossPass pass_over(const Loss& loss, const at::Tensor& input, const at::Tensor& target) {
  raw::LossPass pass;
  pass.dtype = dtype_of(input, "smooth_l1_loss");
  pass.count = input.numel();
  pass.input = input.const_data_ptr();
  pass.target = target.const_data_ptr();
  if (loss.reduction == at::Reduction::Mean) pass.factor = 1.0 / static_cast<double>(pass.count);
  pass.reduced_is_half = true;
  return pass;
}

at::Tensor make_value(const Loss& loss, const at::Tensor& input) {
  if (!loss.reduces()) return new_like(input);
  at::Tensor value = new_number(input);
  if (input.numel() == 0)
    value.fill_(loss.reduction == at::Reduction::Mean ? std::numeric_limits<double>::quiet_NaN() : 0.0);
  return value;
}

template <class Where>
void run(const Loss& loss, const at::Tensor& input, const raw::LossPass& pass) {
  if (pass.count == 0) return;
  Where(input).with_loss_workspace([&](const auto& where) { raw::loss(where, loss.formula, pass); });
}

void run_on(const Loss& loss, const at::Tensor& input, const raw::LossPass& pass) {
#if defined(BEVEL_TORCH_CUDA)
  if (input.is_cuda()) return run<OnCuda>(loss, input, pass);
#endif
  run<OnCpu>(loss, input, pass);
}

void set_upstream(raw::LossPass& pass, const Loss& loss, const at::Tensor& grad) {
  pass.upstream = grad.const_data_ptr();
  pass.upstream_each = !loss.reduces();
}

}  // namespace

at::Tensor smooth_l1_loss(const at::Tensor& input, const at::Tensor& target, int64_t reduction, double beta) {
  const auto [a, b] = checked_operands(input, target, reduction, beta);
  const Loss loss{reduction, {beta}};
  const at::Tensor x = dense(a), t = dense_like(b, x);
  at::Tensor value = make_value(loss, x);
  raw::LossPass pass = pass_over(loss, x, t);
  pass.value = value.data_ptr();
  pass.value_each = !loss.reduces();
  run_on(loss, x, pass);
  return value;
}

std::tuple<at::Tensor, at::Tensor> smooth_l1_loss_with_gradient(const at::Tensor& input, const at::Tensor& target,
                                                                int64_t reduction, double beta) {
  const auto [a, b] = checked_operands(input, target, reduction, beta);
  const Loss loss{reduction, {beta}};
  TORCH_CHECK(loss.reduces(), "bevel::_smooth_l1_loss_with_gradient needs a reduction");
  const at::Tensor x = dense(a), t = dense_like(b, x);
  at::Tensor value = make_value(loss, x), gradient = new_like(x);
  raw::LossPass pass = pass_over(loss, x, t);
  pass.value = value.data_ptr();
  pass.d_input = gradient.data_ptr();
  run_on(loss, x, pass);
  return {std::move(value), std::move(gradient)};
}

at::Tensor smooth_l1_loss_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& target,
                                   int64_t reduction, double beta) {
  const auto [a, b] = checked_operands(input, target, reduction, beta);
  const Loss loss{reduction, {beta}};
  const at::Tensor x = dense(a), t = dense_like(b, x), upstream = dense_like(grad.to(x.scalar_type()), x);
  at::Tensor gradient = new_like(x);
  raw::LossPass pass = pass_over(loss, x, t);
  set_upstream(pass, loss, upstream);
  pass.d_input = gradient.data_ptr();
  run_on(loss, x, pass);
  return gradient;
}

std::tuple<at::Tensor, at::Tensor> smooth_l1_loss_double_backward(const at::Tensor& direction, const at::Tensor& grad,
                                                                  const at::Tensor& input, const at::Tensor& target,
                                                                  int64_t reduction, double beta) {
  const auto [a, b] = checked_operands(input, target, reduction, beta);
  const Loss loss{reduction, {beta}};
  const at::Tensor x = dense(a), t = dense_like(b, x);
  const at::Tensor upstream = dense_like(grad.to(x.scalar_type()), x), along = dense_like(direction, x);
  at::Tensor d_grad = loss.reduces() ? at::zeros({}, x.options()) : new_like(x), d_input = new_like(x);
  raw::LossPass pass = pass_over(loss, x, t);
  pass.is_second = true;
  pass.direction_input = along.const_data_ptr();
  set_upstream(pass, loss, upstream);
  pass.value = d_grad.data_ptr();
  pass.value_each = !loss.reduces();
  pass.d_input = d_input.data_ptr();
  run_on(loss, x, pass);
  return {std::move(d_grad), std::move(d_input)};
}

void scale_own_gradient(const at::Tensor& gradient, const at::Tensor& factor) {
  const raw::GradientScale scale{dtype_of(gradient, "smooth_l1_loss"),
                                 gradient.numel(),
                                 gradient.const_data_ptr(),
                                 factor.const_data_ptr(),
                                 factor.scalar_type() == gradient.scalar_type(),
                                 gradient.data_ptr()};
#if defined(BEVEL_TORCH_CUDA)
  if (gradient.is_cuda())
    return OnCuda(gradient).with_memory(0, [&](const auto& where) { raw::scale_gradient(where, scale); });
#endif
  raw::scale_gradient(bevel::Cpu{}, scale);
}

}  // namespace bevel_torch
