// capture: a training step as one CUDA graph, without rewriting it.
//
//   auto step = capture([&](const Tensor& images, const Tensor& boxes) {
//     optimizer.zero_grad();
//     Tensor loss = smooth_l1(net(images), boxes);
//     loss.backward();
//     optimizer.step();
//     return loss;
//   });
//   for (auto& [images, boxes] : loader) losses.push_back(step(images, boxes));
//
// The first call with inputs of some shapes runs the step as it is, the second records it, and all others replay the
// record: one launch instead of hundreds, and the host does hardly anything. Captured or not, training gives the same
// bits. Inputs of other shapes or dtypes, or another current stream, get a record of their own. On the CPU the step is
// simply called.
//
// What a replay does:
//   - The inputs are copied into those of the record. What the step returns comes as a copy, without history and
//     without waiting for the device: it stays what it is.
//   - Parameters, optimiser states, running statistics and gradients are changed where they lie. A gradient belongs to
//     the record: the tensor that grad() gives changes at the next call.
//   - Random numbers go on as in eager calls. So do learning rates (Optimizer::set_lr, Schedule), step counts and what
//     else the library keeps on the host.
//   - Everything else that the step's own code does on the host happens in the first two calls only. Numbers that it
//     computes (a loss's beta, a dropout rate, train or eval, which branch was taken, tensors that it assigns to
//     variables) are part of the record as they were in the second call.
//
// Errors:
//   - Recording: whatever makes the host wait for the device, such as item(), or uses the elements of a tensor on the
//     CPU, by the operation's name; a gradient left from before the step, unless the step lets it go (zero_grad); a
//     step that does nothing on the device. The stream and all tensors are usable afterwards.
//   - Replay: a tensor that the record uses has got other memory (Module::to, a parameter moved to another device). New
//     values in the same memory (load_state, copy_from) are seen by the next replay. Also a gradient left from an
//     earlier call where the step does not let it go.
// An index out of range in gather, index_select or scatter_add is reported by one of the next calls, see gather.h.
//
// While a step is recorded no other thread may use the same stream (DataLoader's threads have their own). A captured
// step is for one thread at a time. Tensors used by a record live as long as it.
#pragma once

#include <bevel/core/tensor.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace bevel {

// Order of the fields as given.
struct CaptureOptions {
  // Where the step runs; inputs on the CPU are copied there. Not given: the device of the first input.
  std::optional<Device> device = std::nullopt;
  std::size_t max_graphs = 8;  // records kept; the one that was not used for longest goes
  std::size_t max_bytes = 0;   // of memory that all records hold; OutOfMemory for one that needs more; 0: no limit
};

struct CaptureStats {
  std::size_t graphs = 0;    // records now
  std::size_t bytes = 0;     // their memory
  std::size_t nodes = 0;     // of the last one used
  std::size_t recorded = 0;  // recordings so far
};

namespace detail {

// The records of a step.
class GraphCache {
 public:
  using Step = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

  explicit GraphCache(CaptureOptions options);
  ~GraphCache();
  GraphCache(GraphCache&&) noexcept;
  GraphCache& operator=(GraphCache&&) noexcept;

  std::vector<Tensor> run(std::span<const Tensor> inputs, const Step& step);
  CaptureStats stats() const;
  void clear();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

template <class F>
class Captured {
 public:
  explicit Captured(F step, CaptureOptions options = {}) : step_(std::move(step)), cache_(options) {}

  // Takes tensors; gives back what the step returns: nothing, a Tensor or a std::vector<Tensor>.
  template <std::convertible_to<const Tensor&>... Inputs>
    requires std::is_invocable_v<F&, Inputs...>
  auto operator()(const Inputs&... inputs) {
    return call(std::array<Tensor, sizeof...(Inputs)>{inputs...}, std::index_sequence_for<Inputs...>());
  }

  CaptureStats stats() const { return cache_.stats(); }
  // Lets all records go; the next calls record anew.
  void clear() { cache_.clear(); }

 private:
  template <std::size_t n, std::size_t... i>
  auto call(const std::array<Tensor, n>& inputs, std::index_sequence<i...>) {
    using Result = decltype(step_(inputs[i]...));
    constexpr bool is_nothing = std::is_void_v<Result>;
    constexpr bool is_tensor = std::is_same_v<std::remove_cvref_t<Result>, Tensor>;
    static_assert(is_nothing || is_tensor || std::is_same_v<std::remove_cvref_t<Result>, std::vector<Tensor>>,
                  "a captured step returns nothing, a Tensor or a std::vector<Tensor>");
    std::vector<Tensor> outputs = cache_.run(inputs, [this](std::span<const Tensor> in) -> std::vector<Tensor> {
      if constexpr (is_nothing)
        return step_(in[i]...), std::vector<Tensor>();
      else if constexpr (is_tensor)
        return {step_(in[i]...)};
      else
        return step_(in[i]...);
    });
    if constexpr (is_tensor)
      return std::move(outputs[0]);
    else if constexpr (!is_nothing)
      return outputs;
  }

  F step_;
  detail::GraphCache cache_;
};

// `step` is any callable on tensors. What it refers to must live as long as the result, and stay where it is.
template <class F>
Captured<std::decay_t<F>> capture(F&& step, CaptureOptions options = {}) {
  return Captured<std::decay_t<F>>(std::forward<F>(step), options);
}

}  // namespace bevel
