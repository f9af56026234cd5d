#include <bevel/core/node.h>
#include <bevel/core/profile.h>

#include <atomic>

namespace bevel {

namespace {

thread_local bool recording = true;
std::atomic<std::uint64_t> nodes_made{0};

Edge edge_to(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.requires_grad()) return {};
  const detail::AutogradState& state = tensor.shared_impl()->autograd;
  if (state.node) return {state.node, state.output, nullptr};
  return {nullptr, 0, tensor.shared_impl()};
}

// What released nodes leave behind. Destroying it may release older nodes, which leave theirs in the same list.
struct Remains {
  std::vector<Edge> edges;
  std::vector<Saved> saved;
  BackwardFunction function;
};
thread_local std::vector<Remains>* remains_list = nullptr;

}  // namespace

void Node::release() noexcept {
  released = true;
  if (edges.empty() && saved.empty() && !function) return;
  Remains remains{std::move(edges), std::move(saved), std::move(function)};
  edges.clear();
  saved.clear();
  function = nullptr;
  if (remains_list) {
    remains_list->push_back(std::move(remains));
    return;
  }
  std::vector<Remains> list;
  list.push_back(std::move(remains));
  remains_list = &list;
  while (!list.empty()) {
    const Remains next = std::move(list.back());
    list.pop_back();
  }
  remains_list = nullptr;
}

bool grad_enabled() {
  return recording;
}

NoGrad::NoGrad() : previous_(recording) {
  recording = false;
}
NoGrad::~NoGrad() {
  recording = previous_;
}

EnableGrad::EnableGrad() : previous_(recording) {
  recording = true;
}
EnableGrad::~EnableGrad() {
  recording = previous_;
}

bool needs_history(std::span<const Tensor> inputs) {
  if (!recording) return false;
  for (const Tensor& input : inputs)
    if (input.defined() && input.requires_grad()) return true;
  return false;
}

void detail::record_node(const char* name, std::span<Tensor* const> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> saved, BackwardFunction function, RecordOptions options) {
  profile_mark("forward", name);
  auto node = std::make_shared<Node>();
  node->name = name;
  node->number = ++nodes_made;
  node->differentiable = options.differentiable;
  node->function = std::move(function);
  for (const Tensor& input : inputs) node->edges.push_back(edge_to(input));
  for (const Tensor& tensor : saved) {
    Saved kept{tensor, tensor.defined() ? tensor.version() : 0, -1};
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (same(tensor, *outputs[i])) kept = {tensor.detach(), kept.version, static_cast<int>(i)};
    node->saved.push_back(std::move(kept));
  }
  for (Tensor* output : outputs) {
    AutogradState& state = output->shared_impl()->autograd;
    require(!state.node && !state.requires_grad, name, ": an output that has history already cannot be recorded");
    node->outputs.push_back({output->shape(), output->dtype(), output->device(), output->shared_impl()});
    state.requires_grad = true;
    state.node = node;
    state.output = static_cast<int>(node->outputs.size()) - 1;
  }
}

bool Backward::has_grad(int i) const {
  return node_.pending[static_cast<std::size_t>(i)].tensor.defined();
}

bool Backward::is_unit(int i) const {
  return node_.pending[static_cast<std::size_t>(i)].is_unit;
}

Tensor Backward::grad(int i) const {
  const auto index = static_cast<std::size_t>(i);
  if (has_grad(i)) return node_.pending[index].tensor;
  const Output& output = node_.outputs[index];
  return Tensor::zeros(output.shape, {.dtype = output.dtype, .device = output.device});
}

Tensor Backward::saved(int i) const {
  const Saved& kept = node_.saved[static_cast<std::size_t>(i)];
  if (!kept.tensor.defined()) return {};
  require(kept.tensor.version() == kept.version, "backward of ", node_.name, ": a tensor of shape ",
          kept.tensor.shape(), " that it needs was changed in place after the forward (version ", kept.version,
          " was kept, now it is ", kept.tensor.version(), ")");
  if (kept.output < 0 || !recording) return kept.tensor;
  Tensor with_history = kept.tensor.detach();
  detail::AutogradState& state = with_history.shared_impl()->autograd;
  state.requires_grad = true;
  state.node = const_cast<Node&>(node_).shared_from_this();
  state.output = kept.output;
  return with_history;
}

bool Backward::needs(int i) const {
  const auto index = static_cast<std::size_t>(i);
  return node_.edges[index].wants_gradient() && (!wanted_ || (*wanted_)[index]);
}

}  // namespace bevel
