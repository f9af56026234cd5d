// Recording: what the core and stateful objects tell a capture (capture.h) while it records a step on this thread.
//
// Users have no need of it. An object whose state on the host goes on in every step (an optimiser's learning rate, a
// schedule's position) registers what must be done again at each replay.
#pragma once

#include <bevel/core/device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace bevel {

class Buffer;
class Generator;
class Tensor;
struct RandomState;

namespace detail {

struct TensorImpl;
class Recording;

// The recording under way on this thread, or null.
extern constinit thread_local Recording* recording;

// Error that names `operation` while a step is recorded: it would need the device's results on the host.
void refuse_while_recording(const char* operation);

// The elements of a tensor are read or written.
void note_use(const std::shared_ptr<TensorImpl>& tensor);
// They were changed in place.
void note_change(const std::shared_ptr<TensorImpl>& tensor);
// The gradient of a leaf is about to be let go (`clears`) or replaced.
void note_gradient(const std::shared_ptr<TensorImpl>& leaf, bool clears);

// Memory writes that are done in one launch: copies between arrays of the device, and numbers of up to 8 bytes.
struct Transfers {
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  struct Number {
    void* to;
    std::uint64_t bits;
    std::size_t bytes;
  };
  std::vector<Copy> copies;
  std::vector<Number> numbers;

  template <class T>
  void write(T* to, T value) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    Number number{to, 0, sizeof(T)};
    __builtin_memcpy(&number.bits, &value, sizeof(T));
    numbers.push_back(number);
  }
  bool empty() const { return copies.empty() && numbers.empty(); }
};

// Called before every run of the recorded graph, the first included: may add numbers to be written in front of it.
void before_replay(std::function<void(Transfers&)> action);
// Called on the host after every run of the recorded graph but the first, of which the step itself has done it.
void after_replay(std::function<void()> action);
// Kept as long as the graph.
void keep_for_replay(Tensor tensor);

// Counters of a random stream for a recorded kernel: relative to a place that is set anew at each replay.
RandomState reserve_while_recording(Generator& generator, std::uint64_t counters);

// The buffer of a new tensor while a step is recorded: from the graph's own pool. Null on another device.
std::shared_ptr<Buffer> allocate_while_recording(std::size_t bytes, Device device);

// Does work now instead of recording it: on a stream of its own, for which the destructor waits. Nothing to do where
// nothing is recorded.
class Unrecorded {
 public:
  Unrecorded();
  ~Unrecorded();
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace detail
}  // namespace bevel
