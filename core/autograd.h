// Autograd: a tape of nodes, walked backwards.
//
// An operator computes its output, then calls record() with its inputs and the function from output gradients to input
// gradients. That makes a Node only if an input requires a gradient and recording is on. Nodes are numbered in the
// order of their making, and an input is always older than its consumer; so the walk takes the youngest node that has
// gradients waiting, and every node is visited once, when all its gradients are there. Walk and release are loops, not
// recursions: a chain of a million operators needs no stack.
#pragma once

#include <bevel/core/tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

namespace bevel {

using Gradients = std::vector<Tensor>;

// What a node's function sees: the gradients of its outputs, the tensors it saved, and which inputs want a gradient.
class Backward {
 public:
  // The gradient of output i; zeros where nothing depends on that output.
  Tensor grad(int i = 0) const;
  // Whether the gradient of output i is there at all.
  bool has_grad(int i) const;
  // Whether the gradient of output i is the 1 that backward() starts with: a loss may then hand on what it stored.
  bool is_unit(int i = 0) const;
  // Saved tensor i. Error if its elements were changed in place since the forward.
  Tensor saved(int i) const;
  // Whether the gradient of input i is wanted; an unwanted entry of the result may stay undefined.
  bool needs(int i) const;
  // Whether this node is released after this pass, so that a saved tensor's buffer may be given away.
  bool releases() const { return !retain_; }

 private:
  friend class Engine;
  Backward(const Node& node, const std::vector<bool>* wanted, bool retain)
      : node_(node), wanted_(wanted), retain_(retain) {}
  const Node& node_;
  const std::vector<bool>* wanted_;  // by input; null: all that have history
  bool retain_;
};

using BackwardFunction = std::function<Gradients(const Backward&)>;

// How a node is recorded. `differentiable`: its function is made of recorded operators, so that it can be
// differentiated again; otherwise grad(..., {.create_graph = true}) through it is an Error that names it.
struct RecordOptions {
  bool differentiable = true;
};

// Whether gradients are recorded on this thread; NoGrad turns it off.
bool grad_enabled();

class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};

// Turns recording on again, within a NoGrad.
class EnableGrad {
 public:
  EnableGrad();
  ~EnableGrad();
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool previous_;
};

// no_grad([&] { ... }) calls the function without recording.
template <class F>
decltype(auto) no_grad(F&& f) {
  const NoGrad guard;
  return std::forward<F>(f)();
}

// Whether an operator on these inputs has to be recorded.
bool needs_history(std::span<const Tensor> inputs);

namespace detail {
void record_node(const char* name, std::span<Tensor* const> outputs, std::span<const Tensor> inputs,
                 std::span<const Tensor> saved, BackwardFunction function, RecordOptions options);
}

// Records that `output` was computed from `inputs` by the operator `name` (a string literal). `saved` holds inputs or
// outputs that the function needs again, as backward.saved(i): the only way to keep a tensor, since a captured one
// would escape the version check and the release. The function returns one gradient for each input, of the input's
// shape and dtype; undefined means zero. Undefined inputs are allowed and never need a gradient.
template <class F>
void record(const char* name, Tensor& output, std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> saved,
            F&& function, RecordOptions options = {}) {
  if (!needs_history(inputs)) return;
  Tensor* const outputs[] = {&output};
  detail::record_node(name, outputs, inputs, saved, std::forward<F>(function), options);
}

// The same for several outputs, or a number of inputs known at run time.
template <class F>
void record(const char* name, std::span<Tensor* const> outputs, std::span<const Tensor> inputs,
            std::span<const Tensor> saved, F&& function, RecordOptions options = {}) {
  if (!needs_history(inputs)) return;
  detail::record_node(name, outputs, inputs, saved, std::forward<F>(function), options);
}

struct BackwardOptions {
  bool retain_graph = false;  // keep the graph for another backward
  bool create_graph = false;  // record the backward pass itself; implies retain_graph
};

// Adds d(output)/d(leaf) into leaf.grad() of every leaf that `output` depends on and that requires a gradient.
// `gradient` is the upstream gradient, of the output's shape, dtype and device; it may be left out for one element.
// Frees the graph as it goes. On an Error no gradient of any leaf has changed.
void backward(const Tensor& output, const Tensor& gradient = {}, BackwardOptions options = {});

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused = false;              // undefined instead of an Error for an input on which no output depends
  std::vector<Tensor> grad_outputs = {};  // upstream gradients, one per output; 1 for outputs of one element
};

// The gradients of the sum of `outputs` with respect to `inputs` (leaves or computed), and nothing else.
Gradients grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs, const GradOptions& options = {});
Gradients grad(const Tensor& output, std::initializer_list<Tensor> inputs, const GradOptions& options = {});

// a + b, by which the engine sums gradients of one tensor. Declared here and defined with the operators.
Tensor sum_gradients(const Tensor& a, const Tensor& b);

}  // namespace bevel
