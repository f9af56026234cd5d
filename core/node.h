// The node of the tape. Seen by the engine only; operators use record().
#pragma once

#include <bevel/core/autograd.h>
#include <bevel/core/recompute.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace bevel {

// Where a gradient goes: to output `output` of an older node, or to a leaf; to neither for an input without history.
struct Edge {
  std::shared_ptr<Node> node;
  int output = 0;
  std::shared_ptr<detail::TensorImpl> leaf;

  bool wants_gradient() const { return node || leaf; }
};

struct Recipe;

// A tensor kept for the backward pass. An output of the node itself is kept without history, since it would own its
// owner, and gets the history back when it is asked for. Of an output of `maker` with a recipe that alone is kept.
struct Saved {
  Tensor tensor;
  std::uint64_t version = 0;
  int output = -1;
  std::shared_ptr<const Recipe> recipe = nullptr;
  std::shared_ptr<Node> maker = nullptr;
};

// How the output of a node is computed again (recompute.h). What it is computed from is kept as it is, never by a
// recipe of its own: so nothing here is recursive.
struct Recipe {
  const char* name;
  std::vector<Saved> kept;
  Recomputation function;
  std::weak_ptr<detail::TensorImpl> output;
  std::uint64_t version;  // of the output that it makes

  // The output, which `user`, a node, asks for: the tensor itself if it is still there and unchanged.
  Tensor make(const char* user) const;
};

struct Output {
  Shape shape;
  Dtype dtype;
  Device device;
  std::weak_ptr<detail::TensorImpl> tensor;
};

struct PendingGradient {
  Tensor tensor;
  bool is_unit = false;
};

class Node : public std::enable_shared_from_this<Node> {
 public:
  ~Node() { release(); }

  // Lets go of the function, the saved tensors and the older nodes, without recursion.
  void release() noexcept;

  const char* name = "";
  std::uint64_t number = 0;  // in the order of making
  bool differentiable = true;
  bool released = false;
  std::vector<Edge> edges;
  std::vector<Saved> saved;
  std::vector<Output> outputs;
  std::shared_ptr<const Recipe> recipe;  // of the only output
  BackwardFunction function;

  // Used during a walk only: the gradients that have arrived, by output.
  std::vector<PendingGradient> pending;
  bool queued = false;
};

}  // namespace bevel
