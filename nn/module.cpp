#include <bevel/core/autograd.h>
#include <bevel/core/profile.h>
#include <bevel/nn/module.h>

#include <utility>

namespace bevel::nn {

void Visitor::tensor(std::string_view name, Tensor& tensor, Kind kind) {
  if (!tensor.defined() || !on_tensor_) return;
  if (!every_ && !seen_.insert(tensor.shared_impl().get()).second) return;
  on_tensor_(prefix_ + std::string(name), tensor, kind);
}

void Visitor::operator()(std::string_view name, Module& child) {
  const std::size_t length = prefix_.size();
  prefix_.append(name);
  if (on_module_) on_module_(prefix_, child);
  prefix_.append(".");
  child.visit(*this);
  prefix_.resize(length);
}

Tensor Module::operator()(const Tensor& input) {
  const Range range("forward");
  return forward(input);
}

Tensor Module::forward(const Tensor&) {
  fail("Module: this module has no forward() of one tensor");
}

void Module::visit(Visitor&) {}

// Reading the members goes through the same visit() as changing them; nothing is changed by the const functions.
void Module::walk(Visitor::OnTensor on_tensor, Visitor::OnModule on_module) const {
  Visitor visitor(std::move(on_tensor), std::move(on_module));
  const_cast<Module*>(this)->visit(visitor);
}

NamedTensors Module::named_parameters() const {
  NamedTensors result;
  walk([&](const std::string& name, Tensor& tensor, Visitor::Kind kind) {
    if (kind == Visitor::Kind::parameter) result.push_back({name, tensor});
  });
  return result;
}

NamedTensors Module::named_buffers() const {
  NamedTensors result;
  walk([&](const std::string& name, Tensor& tensor, Visitor::Kind kind) {
    if (kind == Visitor::Kind::buffer) result.push_back({name, tensor});
  });
  return result;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> result;
  for (NamedTensor& entry : named_parameters()) result.push_back(std::move(entry.tensor));
  return result;
}

std::int64_t Module::num_parameters() const {
  std::int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

namespace {

// Makes `tensor` hold the elements of `by` while every handle to it stays valid.
void rebind(const Tensor& tensor, const Tensor& by) {
  bevel::detail::TensorImpl& impl = *tensor.shared_impl();
  const std::uint64_t version = tensor.version();
  impl.buffer = by.shared_impl()->buffer;
  impl.offset = by.shared_impl()->offset;
  impl.dtype = by.dtype();
  // A graph that saved the tensor must notice, so the count goes on from where it was.
  while (impl.buffer->version() <= version) impl.buffer->mark_changed();
}

Tensor converted(const Tensor& tensor, Dtype dtype) {
  return visit_float_double(dtype, "Module::to", [&]<class T>() {
    return Tensor::from_values(tensor.shape(), tensor.to_vector<T>(), {.device = tensor.device()});
  });
}

}  // namespace

void Module::to(Device device) {
  NamedTensors members = state();
  std::vector<Tensor> moved;  // all copies first: if memory runs out, nothing has changed
  std::vector<Tensor> moved_gradients;
  for (const NamedTensor& member : members) {
    moved.push_back(member.tensor.detach().to(device));
    const Tensor gradient = member.tensor.grad();
    moved_gradients.push_back(gradient.defined() ? gradient.detach().to(device) : Tensor());
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Tensor& tensor = members[i].tensor;
    if (tensor.device() == device) continue;
    tensor.set_grad({});
    rebind(tensor, moved[i]);
    tensor.set_grad(moved_gradients[i]);
  }
}

void Module::to(Dtype dtype) {
  require(dtype == f32 || dtype == f64, "Module::to: the dtype must be f32 or f64; got ", dtype);
  std::vector<std::pair<Tensor, Tensor>> changes;
  for (const auto& [name, tensor] : state())
    if (tensor.dtype() != dtype && (tensor.dtype() == f32 || tensor.dtype() == f64))
      changes.emplace_back(tensor, converted(tensor, dtype));
  for (const auto& [tensor, values] : changes) {
    tensor.set_grad({});
    rebind(tensor, values);
  }
}

void Module::train(bool training) {
  training_ = training;
  walk({}, [training](const std::string&, Module& module) { module.training_ = training; });
}

void Module::zero_grad() {
  for (const Tensor& parameter : parameters()) parameter.set_grad({});
}

void Module::set_requires_grad(bool requires_grad) {
  for (const Tensor& parameter : parameters()) parameter.set_requires_grad(requires_grad);
}

NamedTensors Module::state() const {
  NamedTensors result = named_parameters();
  for (NamedTensor& entry : named_buffers()) result.push_back(std::move(entry));
  return result;
}

void Module::load_state(std::span<const NamedTensor> state) {
  copy_matching("load_state", this->state(), state);
}

void Module::copy_state(const Module& other) {
  copy_matching("copy_state", state(), other.state());
}

Tensor clone_leaf(const Tensor& parameter) {
  if (!parameter.defined()) return {};
  const Tensor copy = parameter.detach().clone();
  copy.set_requires_grad(parameter.requires_grad());
  return copy;
}

}  // namespace bevel::nn
