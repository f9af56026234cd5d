// Module: the base of everything with parameters. A module is an object that owns tensors and other modules, lists them
// when asked, and computes an output from an input:
//
//   struct Block : nn::Module {
//     nn::Linear linear{16, 16};
//     Tensor scale = Tensor::from({16}, ..., {.requires_grad = true});
//     Tensor forward(const Tensor& x) override { return x + scale * relu(linear(x)); }
//     void visit(nn::Visitor& v) override { v("linear", linear); v("scale", scale); }
//   };
//
// Everything else (parameters, devices, modes, state) follows from visit(). Names of nested members are joined by dots:
// "linear.weight". Modules hold no pointers to their members, so they can be moved; they cannot be copied, as it would
// be unclear whether the tensors are shared. A class that can be copied deeply has `Self clone() const`.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/nn/named_tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace bevel::nn {

class Module;

// Is called by Module::visit with each member. Undefined tensors (a bias that is not there) are passed over, and a
// tensor that appears under several names (tied parameters) counts under the first.
class Visitor {
 public:
  enum class Kind { parameter, buffer };
  using OnTensor = std::function<void(const std::string& name, Tensor& tensor, Kind kind)>;
  using OnModule = std::function<void(const std::string& name, Module& module)>;

  // Either function may be empty. `every`: a tied tensor is shown under each of its names.
  explicit Visitor(OnTensor on_tensor, OnModule on_module = {}, bool every = false)
      : on_tensor_(std::move(on_tensor)), on_module_(std::move(on_module)), every_(every) {}

  // A parameter: a leaf that training changes.
  void operator()(std::string_view name, Tensor& parameter) { tensor(name, parameter, Kind::parameter); }
  // A tensor that belongs to the state but is not trained, such as a running variance.
  void buffer(std::string_view name, Tensor& buffer) { tensor(name, buffer, Kind::buffer); }
  // A member module.
  void operator()(std::string_view name, Module& child);
  // Several member modules, named name.0, name.1, ...
  template <std::derived_from<Module> M>
  void operator()(std::string_view name, std::vector<M>& children) {
    for (std::size_t i = 0; i < children.size(); ++i) (*this)(message(name, ".", i), children[i]);
  }

 private:
  void tensor(std::string_view name, Tensor& tensor, Kind kind);

  OnTensor on_tensor_;
  OnModule on_module_;
  bool every_;
  std::string prefix_;
  std::unordered_set<const void*> seen_;
};

class Module {
 public:
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  virtual ~Module() = default;

  // The output for `input`. A module with inputs of another kind declares its own functions and leaves this one, which
  // is an Error.
  virtual Tensor forward(const Tensor& input);
  Tensor operator()(const Tensor& input);

  // Calls the visitor with each member, always in the same order. Nothing to do without members.
  virtual void visit(Visitor& visitor);

  // Every parameter once, in the order of visit(); frozen ones too.
  std::vector<Tensor> parameters() const;
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  // Elements of all parameters.
  std::int64_t num_parameters() const;

  // Moves parameters, their gradients and buffers. The handles stay the same tensors, so optimisers made before or
  // after see them; a backward pass through a forward from before the move is an Error.
  void to(Device device);
  // Converts parameters and buffers that are f32 or f64 to the other; gradients are let go. The handles stay.
  void to(Dtype dtype);

  // Training mode, which is on at first, or evaluation mode, for this module and all within.
  void train(bool training = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }

  // Lets the gradients of all parameters go.
  void zero_grad();
  // Frozen parameters (false) get no gradient, so optimisers leave them as they are.
  void set_requires_grad(bool requires_grad);

  // Parameters, then buffers: handles, not copies.
  NamedTensors state() const;
  // Copies the values of `state` into parameters and buffers. Error if names, shapes or dtypes differ from those of
  // state(); nothing has changed then.
  void load_state(std::span<const NamedTensor> state);
  // load_state(other.state()).
  void copy_state(const Module& other);

 protected:
  // The mode of this module alone.
  void set_mode(bool training) { training_ = training; }

 private:
  void walk(Visitor::OnTensor on_tensor, Visitor::OnModule on_module = {}) const;

  bool training_ = true;
};

// A copy with elements of its own that is a leaf and requires a gradient as `parameter` does; undefined stays
// undefined.
Tensor clone_leaf(const Tensor& parameter);

namespace detail {
// What clone() of a class returns: `copy` in the mode of `original`.
template <class M>
M cloned(const M& original, M copy) {
  copy.train(original.is_training());
  return copy;
}
}  // namespace detail

}  // namespace bevel::nn
