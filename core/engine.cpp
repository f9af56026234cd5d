// The backward walk.
#include <bevel/core/node.h>
#include <bevel/core/profile.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace bevel {

namespace {

// The 1 that a backward pass starts with, made once for each device and dtype.
Tensor unit_gradient(const Tensor& output) {
  static std::mutex mutex;
  static auto& units = *new std::map<std::pair<int, Dtype>, Tensor>;
  const std::lock_guard lock(mutex);
  const int device = output.device().is_cuda() ? output.device().index : -1;
  Tensor& unit = units[{device, output.dtype()}];
  if (!unit.defined()) unit = Tensor::scalar(1, output.options());
  return unit.view(output.shape());
}

// A gradient may become a leaf's without a copy if nobody else holds its elements.
Tensor own(Tensor gradient) {
  const auto& impl = gradient.shared_impl();
  const bool alone = impl.use_count() == 1 && impl->buffer.use_count() == 1 &&
                     static_cast<std::int64_t>(impl->buffer->bytes()) == gradient.bytes();
  return alone ? std::move(gradient) : gradient.clone();
}

}  // namespace

class Engine {
 public:
  explicit Engine(bool retain, bool create_graph) : retain_(retain || create_graph), create_graph_(create_graph) {}
  ~Engine() {
    for (const auto& node : heap_) forget(*node);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The upstream gradient of `output`, checked; an undefined one means 1.
  void add_root(const char* function, const Tensor& output, const Tensor& gradient) {
    require(output.requires_grad(), function, ": the output does not require a gradient: nothing it was computed from ",
            "does, or recording was off");
    if (gradient.defined()) {
      require_same_shape(output, gradient, function, "output", "gradient");
      require_same_dtype(output, gradient, function, "output", "gradient");
      require_same_device(output, gradient, function, "output", "gradient");
    } else {
      require(output.numel() == 1, function, ": an output of shape ", output.shape(),
              " needs a gradient of the same shape; only one of a single element starts from 1");
    }
    const detail::AutogradState& state = output.shared_impl()->autograd;
    Edge edge{state.node, state.output, state.node ? nullptr : output.shared_impl()};
    roots_.push_back({std::move(edge), {gradient.defined() ? gradient : unit_gradient(output), !gradient.defined()}});
  }

  // Only gradients of these tensors are wanted: nodes that lead to none of them are not visited.
  void only(std::span<const Tensor> targets) {
    pruning_ = true;
    for (const Tensor& target : targets) {
      const detail::AutogradState& state = target.shared_impl()->autograd;
      if (state.node)
        node_targets_[state.node.get()].resize(state.node->outputs.size());
      else
        leaf_targets_.insert(target.shared_impl().get());
    }
    for (const Root& root : roots_)
      if (root.edge.node) mark_paths(*root.edge.node);
  }

  void walk() {
    const bool previous = grad_enabled();
    if (create_graph_ || !previous)
      walk_nodes();
    else
      no_grad([&] { walk_nodes(); });
  }

  // After walk(): the gradient that arrived at a target; undefined where none did.
  Tensor gradient_of(const Tensor& target) const {
    const detail::AutogradState& state = target.shared_impl()->autograd;
    if (state.node) return node_targets_.at(state.node.get())[static_cast<std::size_t>(state.output)];
    const auto found = leaves_.find(target.shared_impl().get());
    return found == leaves_.end() ? Tensor() : found->second.gradient;
  }

  // After walk(): adds what arrived to grad() of leaves and retaining tensors. First all sums, then the assignments, so
  // that an Error leaves every gradient as it was.
  void accumulate() {
    const auto sum = [&] {
      for (auto& [impl, arrival] : leaves_) {
        const Tensor existing(impl->autograd.grad);
        arrival.gradient = existing.defined() ? sum_gradients(existing, arrival.gradient)
                                              : own(std::exchange(arrival.gradient, Tensor()));
      }
    };
    if (create_graph_)
      sum();
    else
      no_grad(sum);
    for (auto& [impl, arrival] : leaves_) {
      if (detail::recording) detail::note_gradient(arrival.tensor, false);
      impl->autograd.grad = arrival.gradient.shared_impl();
    }
  }

 private:
  struct Root {
    Edge edge;
    PendingGradient gradient;
  };
  struct Arrival {
    std::shared_ptr<detail::TensorImpl> tensor;
    Tensor gradient;
  };

  static bool older(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) { return a->number < b->number; }

  static void forget(Node& node) noexcept {
    node.pending.clear();
    node.queued = false;
  }

  // Depth first over the graph without recursion: fills wanted_ with the inputs of every node that lead to a target.
  void mark_paths(Node& root) {
    struct Visit {
      Node* node;
      std::size_t next_edge;
    };
    if (!leads_.emplace(&root, node_targets_.contains(&root)).second) return;  // seen from another root
    std::vector<Visit> stack{{&root, 0}};
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next_edge < top.node->edges.size()) {
        Node* child = top.node->edges[top.next_edge++].node.get();
        if (child && leads_.emplace(child, node_targets_.contains(child)).second) stack.push_back({child, 0});
        continue;
      }
      Node* const done = top.node;
      stack.pop_back();
      std::vector<bool>& wanted = wanted_[done];
      for (const Edge& edge : done->edges) {
        const bool leads = edge.node ? leads_.at(edge.node.get()) : leaf_targets_.contains(edge.leaf.get());
        wanted.push_back(leads);
        if (leads) leads_[done] = true;
      }
    }
  }

  void walk_nodes() {
    for (Root& root : roots_) send(root.edge, std::move(root.gradient));
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), older);
      const std::shared_ptr<Node> node = std::move(heap_.back());
      heap_.pop_back();
      try {
        visit(*node);
      } catch (...) {
        forget(*node);
        throw;
      }
    }
  }

  void visit(Node& node) {
    deliver(node);
    const std::vector<bool>* wanted = pruning_ ? &wanted_.at(&node) : nullptr;
    if (!wanted || std::find(wanted->begin(), wanted->end(), true) != wanted->end()) {
      require(!node.released, "backward: the graph was freed by an earlier backward pass (at ", node.name,
              "); pass {.retain_graph = true} to the first one");
      require(!create_graph_ || node.differentiable, "backward with create_graph: ", node.name,
              " has no differentiable backward");
      Gradients gradients = [&] {
        const Range range(node.name);
        return node.function(Backward(node, wanted, retain_));
      }();
      detail::profile_mark("backward", node.name);
      check(node, gradients);
      forget(node);
      for (std::size_t i = 0; i < gradients.size(); ++i)
        if (gradients[i].defined() && (!wanted || (*wanted)[i])) send(node.edges[i], {std::move(gradients[i])});
      if (!retain_) node.release();
    }
    forget(node);
  }

  // Hands the node's complete gradients to the targets among its outputs and to outputs that retain theirs.
  void deliver(Node& node) {
    const auto target = node_targets_.find(&node);
    for (std::size_t i = 0; i < node.pending.size(); ++i) {
      const Tensor& gradient = node.pending[i].tensor;
      if (!gradient.defined()) continue;
      if (target != node_targets_.end()) target->second[i] = gradient;
      const auto output = node.outputs[i].tensor.lock();
      if (!pruning_ && output && output->autograd.retain_grad) arrive(output, gradient);
    }
  }

  static void check(const Node& node, const Gradients& gradients) {
    require(gradients.size() == node.edges.size(), "backward of ", node.name, ": ", node.edges.size(),
            " input gradients expected; got ", gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Edge& edge = node.edges[i];
      if (!gradients[i].defined() || !edge.wants_gradient()) continue;
      const Output* output = edge.node ? &edge.node->outputs[static_cast<std::size_t>(edge.output)] : nullptr;
      const Shape& shape = output ? output->shape : edge.leaf->shape;
      const Dtype dtype = output ? output->dtype : edge.leaf->dtype;
      require(gradients[i].shape() == shape && gradients[i].dtype() == dtype, "backward of ", node.name,
              ": the gradient of input ", i, " must be ", dtype, " ", shape, "; it is ", gradients[i].dtype(), " ",
              gradients[i].shape());
    }
  }

  void send(const Edge& edge, PendingGradient gradient) {
    if (edge.leaf && (!pruning_ || leaf_targets_.contains(edge.leaf.get()))) arrive(edge.leaf, gradient.tensor);
    if (!edge.node) return;
    Node& node = *edge.node;
    if (!node.queued) {
      node.pending.resize(node.outputs.size());
      node.queued = true;
      heap_.push_back(edge.node);
      std::push_heap(heap_.begin(), heap_.end(), older);
    }
    PendingGradient& pending = node.pending[static_cast<std::size_t>(edge.output)];
    if (pending.tensor.defined())
      pending = {sum_gradients(pending.tensor, gradient.tensor)};
    else
      pending = std::move(gradient);
  }

  void arrive(const std::shared_ptr<detail::TensorImpl>& tensor, const Tensor& gradient) {
    Arrival& arrival = leaves_[tensor.get()];
    arrival.tensor = tensor;
    arrival.gradient = arrival.gradient.defined() ? sum_gradients(arrival.gradient, gradient) : gradient;
  }

  bool retain_;
  bool create_graph_;
  bool pruning_ = false;
  std::vector<Root> roots_;
  std::vector<std::shared_ptr<Node>> heap_;
  std::unordered_map<const Node*, bool> leads_;
  std::unordered_map<const Node*, std::vector<bool>> wanted_;
  std::unordered_map<const Node*, Gradients> node_targets_;
  std::unordered_set<const detail::TensorImpl*> leaf_targets_;
  std::unordered_map<detail::TensorImpl*, Arrival> leaves_;
};

void backward(const Tensor& output, const Tensor& gradient, BackwardOptions options) {
  const Range range("backward");
  Engine engine(options.retain_graph, options.create_graph);
  engine.add_root("backward", output, gradient);
  engine.walk();
  engine.accumulate();
  detail::profile_mark("backward", "accumulate");
}

Gradients grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs, const GradOptions& options) {
  require(options.grad_outputs.empty() || options.grad_outputs.size() == outputs.size(), "grad: ", outputs.size(),
          " outputs need as many grad_outputs; got ", options.grad_outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    require(inputs[i].requires_grad(), "grad: input ", i, " of shape ", inputs[i].shape(),
            " does not require a gradient");
  Engine engine(options.retain_graph, options.create_graph);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    engine.add_root("grad", outputs[i], options.grad_outputs.empty() ? Tensor() : options.grad_outputs[i]);
  engine.only(inputs);
  engine.walk();
  Gradients gradients;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    gradients.push_back(engine.gradient_of(inputs[i]));
    require(gradients.back().defined() || options.allow_unused, "grad: no output depends on input ", i, " of shape ",
            inputs[i].shape(), "; pass {.allow_unused = true} to get an undefined gradient");
  }
  return gradients;
}

Gradients grad(const Tensor& output, std::initializer_list<Tensor> inputs, const GradOptions& options) {
  return grad(std::span(&output, 1), std::span(inputs.begin(), inputs.size()), options);
}

}  // namespace bevel
