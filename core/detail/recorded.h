// A recording under way, and the graph it becomes. Seen by recording.cpp and capture.cpp only.
#pragma once

#include <bevel/core/cuda/transfer_node.h>
#include <bevel/core/detail/pool.h>
#include <bevel/core/detail/recording.h>
#include <bevel/core/random.h>
#include <bevel/core/tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace bevel::detail {

// A tensor from outside that the graph reads or writes, with the memory that it had.
struct UsedTensor {
  std::weak_ptr<TensorImpl> tensor;
  std::shared_ptr<Buffer> buffer;
  std::int64_t offset;
};

// A leaf whose gradient the step lets go or sets.
struct LeafGradient {
  std::weak_ptr<TensorImpl> leaf;
  std::shared_ptr<TensorImpl> before;  // the gradient at the start of the recording
  bool clears;                         // the step lets it go before it sets one
  std::shared_ptr<TensorImpl> after;   // the gradient at the end
};

// Random numbers taken from one generator; where they begin is written before each replay.
struct RecordedRandom {
  Generator* generator;
  Tensor place;
  std::uint64_t counters = 0;
};

// What a kernel may have found wrong.
struct RecordedCheck {
  Tensor flag;
  std::string message;
};

// What a replay needs to know.
struct RecordedState {
  Device device;
  Stream stream;
  std::shared_ptr<MemoryPool> pool;
  std::vector<UsedTensor> used;
  std::vector<std::shared_ptr<Buffer>> changed;
  std::vector<LeafGradient> gradients;
  std::vector<RecordedRandom> randoms;
  std::vector<std::function<void(Transfers&)>> before;
  std::vector<std::function<void()>> after;
  std::vector<Tensor> kept;
  std::vector<RecordedCheck> checks;
  std::string failure;          // of work that was done outside the recording
  std::shared_ptr<void> flags;  // their flags in host memory that the device writes
};

// While it lives, what this thread does on `device`'s current stream is noted, and memory comes from the pool.
class Recording {
 public:
  Recording(Device device, std::size_t max_bytes);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // From here on the stream records.
  void begin();
  // The graph of what was recorded since. Error if it has no nodes but `own_nodes` of the recorder's.
  gpu::Graph end(std::size_t own_nodes);

  void use(const std::shared_ptr<TensorImpl>& tensor);
  void change(const std::shared_ptr<TensorImpl>& tensor);
  void gradient(const std::shared_ptr<TensorImpl>& leaf, bool clears);
  RandomState reserve(Generator& generator, std::uint64_t counters);

  RecordedState& state() { return state_; }

 private:
  bool outside(const Buffer& buffer) const;

  RecordedState state_;
  std::unordered_map<const TensorImpl*, const Buffer*> seen_;
  bool capturing_ = false;
  bool done_ = false;
};

// A recorded step.
class RecordedGraph {
 public:
  using Step = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

  // Records the step for inputs like these, which must have run before on the current stream.
  RecordedGraph(Device device, std::span<const Tensor> inputs, const Step& step, std::size_t max_bytes);

  // Runs it on these inputs; copies of the outputs. Error if a recorded tensor has other memory now.
  std::vector<Tensor> run(std::span<const Tensor> inputs);

  std::size_t bytes() const { return state_.pool->bytes(); }
  std::size_t nodes() const { return graph_.nodes; }

 private:
  void check() const;
  void check_flags() const;
  void prepare(std::span<const Tensor> inputs);
  std::vector<Tensor> new_results() const;
  Transfers transfers_to(std::span<const Tensor> results) const;
  void finish();

  RecordedState state_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  bool has_run_ = false;
  Transfers transfers_;
  gpu::TransferNode before_, after_;  // inputs and numbers; outputs and flags, if there are any
  gpu::Graph graph_;                  // last: it goes before the memory it writes
};

}  // namespace bevel::detail
