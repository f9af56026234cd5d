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
  std::shared_ptr<const Recipe> recipe;
  BackwardFunction function;
};
thread_local std::vector<Remains>* remains_list = nullptr;

void set_history(const Tensor& tensor, std::shared_ptr<Node> node, int output) {
  detail::AutogradState& state = tensor.shared_impl()->autograd;
  state.requires_grad = true;
  state.node = std::move(node);
  state.output = output;
}

void check_version(const Saved& kept, const char* user, const char* purpose) {
  require(kept.tensor.version() == kept.version, "backward of ", user, ": a tensor of shape ", kept.tensor.shape(), " ",
          purpose, " was changed in place after the forward (version ", kept.version, " was kept, now it is ",
          kept.tensor.version(), ")");
}

Saved keep(const Tensor& tensor) {
  return {tensor, tensor.defined() ? tensor.version() : 0};
}

// The same, by recipe where there is one.
Saved keep_or_remake(const Tensor& tensor) {
  Saved kept = keep(tensor);
  if (!tensor.defined()) return kept;
  const std::shared_ptr<Node>& maker = tensor.shared_impl()->autograd.node;
  if (!maker || !maker->recipe || maker->recipe->version != kept.version) return kept;
  kept.tensor = {};
  kept.recipe = maker->recipe;
  kept.maker = maker;
  return kept;
}

}  // namespace

void Node::release() noexcept {
  released = true;
  if (edges.empty() && saved.empty() && !function) return;
  Remains remains{std::move(edges), std::move(saved), std::move(recipe), std::move(function)};
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
    Saved kept = keep_or_remake(tensor);
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

void recompute(const char* name, const Tensor& output, std::initializer_list<Tensor> kept, Recomputation function) {
  const std::shared_ptr<detail::TensorImpl>& impl = output.shared_impl();
  const std::shared_ptr<Node>& node = impl->autograd.node;
  if (!node) return;
  require(node->outputs.size() == 1, name, ": only a single output of an operator can be computed again");
  auto recipe = std::make_shared<Recipe>(Recipe{name, {}, std::move(function), impl, output.version()});
  for (const Tensor& tensor : kept) recipe->kept.push_back(keep(tensor));
  node->recipe = std::move(recipe);
}

Tensor Recipe::make(const char* user) const {
  if (Tensor there(output.lock()); there.defined() && there.version() == version) return there;
  std::vector<Tensor> tensors;
  for (const Saved& saved : kept) {
    if (saved.tensor.defined()) check_version(saved, user, "from which one that it needs is computed again");
    tensors.push_back(saved.tensor);
  }
  Tensor result = no_grad([&] { return function(tensors); });
  detail::profile_mark("backward", name);
  return result;
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
  if (kept.recipe) {
    Tensor made = kept.recipe->make(node_.name);
    if (recording && made.is_leaf()) set_history(made, kept.maker, 0);
    return made;
  }
  if (!kept.tensor.defined()) return {};
  check_version(kept, node_.name, "that it needs");
  if (kept.output < 0 || !recording) return kept.tensor;
  const Tensor with_history = kept.tensor.detach();
  set_history(with_history, const_cast<Node&>(node_).shared_from_this(), kept.output);
  return with_history;
}

bool Backward::needs(int i) const {
  const auto index = static_cast<std::size_t>(i);
  return node_.edges[index].wants_gradient() && (!wanted_ || (*wanted_)[index]);
}

}  // namespace bevel
