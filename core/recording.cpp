#include <bevel/core/detail/later_check.h>
#include <bevel/core/detail/recorded.h>
#include <bevel/core/half_copy.h>

#include <algorithm>
#include <utility>

namespace bevel::detail {

constinit thread_local Recording* recording = nullptr;

void refuse_while_recording(const char* operation) {
  if (recording)
    fail("capture: ", operation,
         " cannot be recorded, because the host would have to wait for the device; do it outside the captured step");
}

void note_use(const std::shared_ptr<TensorImpl>& tensor) {
  recording->use(tensor);
}
void note_change(const std::shared_ptr<TensorImpl>& tensor) {
  recording->change(tensor);
}
void note_gradient(const std::shared_ptr<TensorImpl>& leaf, bool clears) {
  if (recording) recording->gradient(leaf, clears);
}

void before_replay(std::function<void(Transfers&)> action) {
  if (recording) recording->state().before.push_back(std::move(action));
}
void after_replay(std::function<void()> action) {
  if (recording) recording->state().after.push_back(std::move(action));
}
void check_after_replay(const Tensor& flag, std::string message) {
  if (recording) recording->state().checks.push_back({flag, std::move(message)});
}
void keep_for_replay(Tensor tensor) {
  if (recording) recording->state().kept.push_back(std::move(tensor));
}

RandomState reserve_while_recording(Generator& generator, std::uint64_t counters) {
  return recording->reserve(generator, counters);
}

std::shared_ptr<Buffer> allocate_while_recording(std::size_t bytes, Device device) {
  const RecordedState& state = recording->state();
  return device == state.device ? state.pool->allocate(bytes) : nullptr;
}

struct Unrecorded::Scope {
  explicit Scope(Recording* suspended) : recording(suspended), guard(Stream(suspended->state().device)) {}
  Recording* recording;
  StreamGuard guard;
};

Unrecorded::Unrecorded() {
  if (recording) scope_ = std::make_unique<Scope>(std::exchange(recording, nullptr));
}

Unrecorded::~Unrecorded() {
  if (!scope_) return;
  try {
    current_stream(scope_->recording->state().device).synchronize();
  } catch (const Error& error) {
    scope_->recording->state().failure = error.what();
  }
  recording = scope_->recording;
}

Recording::Recording(Device device, std::size_t max_bytes) {
  state_.device = device;
  state_.stream = current_stream(device);
  state_.pool = std::make_shared<MemoryPool>(device, state_.stream, max_bytes);
  recording = this;
}

Recording::~Recording() {
  if constexpr (has_cuda)
    if (capturing_) gpu::abandon_capture(state_.stream.handle(), state_.device);
  recording = nullptr;
  if (done_) return;
  // The gradients that the step has set were never computed.
  for (LeafGradient& gradient : state_.gradients)
    if (const auto leaf = gradient.leaf.lock()) leaf->autograd.grad = gradient.before;
}

void Recording::begin() {
  if constexpr (has_cuda) gpu::begin_capture(state_.stream.handle(), state_.device);
  capturing_ = true;
}

gpu::Graph Recording::end(std::size_t own_nodes) {
  gpu::Graph graph;
  capturing_ = false;
  if constexpr (has_cuda) graph = gpu::end_capture(state_.stream.handle(), state_.device);
  if constexpr (has_cuda)
    if (!state_.checks.empty()) {
      state_.flags = gpu::host_memory(state_.checks.size() * sizeof(std::int32_t), state_.device);
      std::fill_n(static_cast<std::int32_t*>(state_.flags.get()), state_.checks.size(), 0);
    }
  require(state_.failure.empty(), "capture: ", state_.failure);
  require(graph.nodes > own_nodes, "capture: the step does nothing on ", state_.device,
          ", so there is nothing to record");
  for (LeafGradient& gradient : state_.gradients) {
    if (const auto leaf = gradient.leaf.lock()) gradient.after = leaf->autograd.grad;
    gradient.before.reset();
  }
  done_ = true;
  return graph;
}

bool Recording::outside(const Buffer& buffer) const {
  return buffer.bytes() > 0 && buffer.pool() != state_.pool.get();
}

void Recording::use(const std::shared_ptr<TensorImpl>& tensor) {
  const Buffer& buffer = *tensor->buffer;
  if (!outside(buffer)) return;
  require(buffer.device() == state_.device, "capture: the step uses a tensor ", tensor->shape, " on ", buffer.device(),
          ", and only work on ", state_.device, " is recorded");
  const Buffer*& seen = seen_[tensor.get()];
  if (seen == &buffer) return;
  seen = &buffer;
  state_.used.push_back({tensor, tensor->buffer, tensor->offset});
}

void Recording::change(const std::shared_ptr<TensorImpl>& tensor) {
  if (!outside(*tensor->buffer)) return;
  std::vector<std::shared_ptr<Buffer>>& changed = state_.changed;
  if (std::find(changed.begin(), changed.end(), tensor->buffer) == changed.end()) changed.push_back(tensor->buffer);
}

void Recording::gradient(const std::shared_ptr<TensorImpl>& leaf, bool clears) {
  const auto is_it = [&](const LeafGradient& known) { return known.leaf.lock() == leaf; };
  if (std::any_of(state_.gradients.begin(), state_.gradients.end(), is_it)) return;
  const std::shared_ptr<TensorImpl>& before = leaf->autograd.grad;
  require(clears || !before, "backward in a captured step: a parameter of shape ", leaf->shape,
          " has a gradient from before the step, and sums over several calls cannot be recorded; call zero_grad() in "
          "the step, before backward()");
  state_.gradients.push_back({leaf, before, clears, nullptr});
}

RandomState Recording::reserve(Generator& generator, std::uint64_t counters) {
  const auto is_it = [&](const RecordedRandom& known) { return known.generator == &generator; };
  auto it = std::find_if(state_.randoms.begin(), state_.randoms.end(), is_it);
  if (it == state_.randoms.end()) {
    const Shape shape{static_cast<std::int64_t>(sizeof(RandomState))};
    const Tensor place = Tensor::empty(shape, {.dtype = u8, .device = state_.device});
    it = state_.randoms.insert(it, {&generator, place});
  }
  const std::uint64_t offset = it->counters;
  it->counters += counters;
  return {.offset = offset, .base = static_cast<const RandomState*>(it->place.raw())};
}

}  // namespace bevel::detail
