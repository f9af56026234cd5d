#include <bevel/core/autograd.h>
#include <bevel/core/capture.h>
#include <bevel/core/detail/recorded.h>
#include <bevel/core/half_copy.h>

#include <algorithm>
#include <utility>

namespace bevel::detail {

namespace {

std::vector<Tensor> without_history(std::vector<Tensor> tensors) {
  for (Tensor& tensor : tensors) {
    require(tensor.defined(), "capture: the step returns an undefined tensor");
    tensor = tensor.detach();
  }
  return tensors;
}

}  // namespace

RecordedGraph::RecordedGraph(Device device, std::span<const Tensor> inputs, const Step& step, std::size_t max_bytes) {
  Recording now(device, max_bytes);
  for (const Tensor& input : inputs)
    inputs_.push_back(Tensor::empty(input.shape(), {.dtype = input.dtype(), .device = device}));
  now.begin();
  if constexpr (has_cuda) before_ = gpu::record_transfers(device);
  outputs_ = without_history(step(inputs_));
  const bool writes = !outputs_.empty() || !now.state().checks.empty();
  if constexpr (has_cuda)
    if (writes) after_ = gpu::record_transfers(device);
  graph_ = now.end(writes ? 2 : 1);
  state_ = std::move(now.state());
}

void RecordedGraph::check() const {
  for (const UsedTensor& used : state_.used) {
    const auto tensor = used.tensor.lock();
    require(!tensor || (tensor->buffer == used.buffer && tensor->offset == used.offset),
            "capture: a recorded tensor of shape ", tensor ? tensor->shape : Shape(),
            " has got other memory since (it was moved, converted or assigned); make a new captured step, or clear()");
  }
  for (const LeafGradient& gradient : state_.gradients) {
    const auto leaf = gradient.leaf.lock();
    require(!leaf || gradient.clears || !leaf->autograd.grad, "capture: a parameter of shape ",
            leaf ? leaf->shape : Shape(),
            " has a gradient from before the step, and sums over several calls cannot be ",
            "replayed; call zero_grad() in the step, before backward()");
  }
}

// What earlier runs have found wrong, as far as they are done. It is said once.
void RecordedGraph::check_flags() const {
  for (std::size_t i = 0; i < state_.checks.size(); ++i) {
    std::int32_t& flag = static_cast<std::int32_t*>(state_.flags.get())[i];
    if (std::exchange(flag, 0) != 0) fail("an earlier call of a captured step: ", state_.checks[i].message);
  }
}

// What is written at the beginning of the graph, and memory last used on other streams.
void RecordedGraph::prepare(std::span<const Tensor> inputs) {
  transfers_.copies.clear();
  transfers_.numbers.clear();
  for (const UsedTensor& used : state_.used) {
    if (const auto tensor = used.tensor.lock(); tensor && tensor->half_copy) refresh_half_copy(Tensor(tensor));
    used.buffer->data();
  }
  for (const LeafGradient& gradient : state_.gradients)
    if (gradient.after) gradient.after->buffer->data();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].numel() == 0) continue;
    if (inputs[i].device() == state_.device)
      transfers_.copies.push_back({inputs_[i].raw(), inputs[i].raw(), static_cast<std::size_t>(inputs[i].bytes())});
    else
      inputs_[i].copy_from(inputs[i]);
  }
  for (const RecordedRandom& random : state_.randoms) {
    const RandomState place = random.generator->reserve(random.counters);
    auto* const to = static_cast<RandomState*>(random.place.raw());
    transfers_.write(&to->seed, place.seed);
    transfers_.write(&to->offset, place.offset);
  }
  for (const auto& action : state_.before) action(transfers_);
}

// Where the outputs will be copied to.
std::vector<Tensor> RecordedGraph::new_results() const {
  std::vector<Tensor> results;
  results.reserve(outputs_.size());
  for (const Tensor& output : outputs_) results.push_back(Tensor::empty(output.shape(), output.options()));
  return results;
}

// What is written at the end of the graph: the results, and to the host what kernels have found wrong.
Transfers RecordedGraph::transfers_to(std::span<const Tensor> results) const {
  Transfers copies;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (const Tensor& output = outputs_[i]; output.numel() > 0)
      copies.copies.push_back({results[i].raw(), output.raw(), static_cast<std::size_t>(output.bytes())});
  for (std::size_t i = 0; i < state_.checks.size(); ++i)
    copies.copies.push_back(
        {static_cast<std::int32_t*>(state_.flags.get()) + i, state_.checks[i].flag.raw(), sizeof(std::int32_t)});
  return copies;
}

// What the step's calls would have left behind on the host.
void RecordedGraph::finish() {
  if (has_run_) {
    for (const auto& buffer : state_.changed) buffer->mark_changed();
    for (const auto& action : state_.after) action();
  }
  for (const LeafGradient& gradient : state_.gradients)
    if (const auto leaf = gradient.leaf.lock()) leaf->autograd.grad = gradient.after;
  has_run_ = true;
}

std::vector<Tensor> RecordedGraph::run(std::span<const Tensor> inputs) {
  check_flags();
  if (has_run_)
    check();
  else
    state_.pool->order_former_streams();
  std::vector<Tensor> results = new_results();
  prepare(inputs);
  if constexpr (has_cuda) {
    const Device device = state_.device;
    gpu::transfer(device, gpu::set_transfers(graph_, before_, transfers_, device));
    Transfers rest;
    if (after_.node) rest = gpu::set_transfers(graph_, after_, transfers_to(results), device);
    gpu::launch_graph(graph_, state_.stream.handle(), device);
    gpu::transfer(device, rest);
  }
  finish();
  return results;
}

struct GraphCache::State {
  struct Entry {
    std::vector<std::pair<Shape, Dtype>> inputs;
    Stream stream;
    std::uint64_t last_use = 0;
    std::unique_ptr<RecordedGraph> graph;  // null after the first call

    bool fits(std::span<const Tensor> tensors, const Stream& current) const {
      return stream == current && std::equal(inputs.begin(), inputs.end(), tensors.begin(), tensors.end(),
                                             [](const auto& like, const Tensor& tensor) {
                                               return like.first == tensor.shape() && like.second == tensor.dtype();
                                             });
    }
    std::size_t bytes() const { return graph ? graph->bytes() : 0; }
  };

  CaptureOptions options;
  std::vector<Entry> entries;
  std::uint64_t calls = 0;
  std::size_t recorded = 0;
  std::size_t last_nodes = 0;

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Entry& entry : entries) sum += entry.bytes();
    return sum;
  }

  // The place of the entry in use afterwards.
  std::size_t drop_least_recent() {
    const auto older = [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; };
    entries.erase(std::min_element(entries.begin(), entries.end(), older));
    return static_cast<std::size_t>(std::max_element(entries.begin(), entries.end(), older) - entries.begin());
  }

  Device device_of(std::span<const Tensor> inputs) const {
    for (const Tensor& input : inputs) {
      require(input.defined(), "capture: an input is undefined");
      require(!input.requires_grad(), "capture: an input of shape ", input.shape(),
              " requires a gradient; inputs are copied, so it would get none");
    }
    const Device device = options.device ? *options.device : inputs.empty() ? cpu : inputs[0].device();
    for (const Tensor& input : inputs)
      require(input.device() == device || (options.device && input.device() == cpu),
              "capture: all inputs must be on one device; found ", device, " and ", input.device());
    return device;
  }

  std::vector<Tensor> run_eagerly(Device device, std::span<const Tensor> inputs, const Step& step) const {
    std::vector<Tensor> there;
    for (const Tensor& input : inputs) there.push_back(input.detach().to(device));
    return without_history(step(there));
  }
};

GraphCache::GraphCache(CaptureOptions options) : state_(std::make_unique<State>()) {
  require(options.max_graphs >= 1, "capture: max_graphs must be at least 1; got ", options.max_graphs);
  state_->options = options;
}
GraphCache::~GraphCache() = default;
GraphCache::GraphCache(GraphCache&&) noexcept = default;
GraphCache& GraphCache::operator=(GraphCache&&) noexcept = default;

void GraphCache::clear() {
  state_->entries.clear();
}

CaptureStats GraphCache::stats() const {
  CaptureStats result{.bytes = state_->bytes(), .nodes = state_->last_nodes, .recorded = state_->recorded};
  for (const State::Entry& entry : state_->entries) result.graphs += entry.graph ? 1 : 0;
  return result;
}

std::vector<Tensor> GraphCache::run(std::span<const Tensor> inputs, const Step& step) {
  State& state = *state_;
  const Device device = state.device_of(inputs);
  if (!device.is_cuda() || recording) return state.run_eagerly(device, inputs, step);

  const Stream& stream = current_stream(device);
  std::size_t place = 0;
  while (place < state.entries.size() && !state.entries[place].fits(inputs, stream)) ++place;
  const bool is_new = place == state.entries.size();
  if (is_new) {
    State::Entry entry{.inputs = {}, .stream = stream, .last_use = 0, .graph = nullptr};
    for (const Tensor& input : inputs) entry.inputs.emplace_back(input.shape(), input.dtype());
    std::vector<Tensor> results = state.run_eagerly(device, inputs, step);
    entry.last_use = ++state.calls;
    state.entries.push_back(std::move(entry));
    if (state.entries.size() > state.options.max_graphs) state.drop_least_recent();
    return results;
  }
  state.entries[place].last_use = ++state.calls;
  if (!state.entries[place].graph) {
    state.entries[place].graph = std::make_unique<RecordedGraph>(device, inputs, step, state.options.max_bytes);
    ++state.recorded;
    while (state.options.max_bytes != 0 && state.bytes() > state.options.max_bytes) place = state.drop_least_recent();
  }
  RecordedGraph& graph = *state.entries[place].graph;
  state.last_nodes = graph.nodes();
  return graph.run(inputs);
}

}  // namespace bevel::detail
