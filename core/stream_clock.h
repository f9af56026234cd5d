// How long a stream was busy, or idle: stretches between two points of its work, added up.
//
//   StreamClock waiting(device);
//   for (auto& batch : loader) {
//     waiting.stop();        // the batch is there
//     ... step ...
//     waiting.start();       // from when the step's work is done
//   }
//   waiting.seconds();       // for which the device waited for batches
//
// On a GPU a point is when the work queued up to there is done; nothing waits for it but seconds(). On the CPU it is
// the moment of the call.
#pragma once

#include <bevel/core/stream.h>

#include <chrono>
#include <memory>
#include <vector>

namespace bevel {

class StreamClock {
 public:
  // Of the calling thread's current stream on `device`.
  explicit StreamClock(Device device);

  // A start in an open stretch begins it anew; a stop without a start does nothing.
  void start();
  void stop();
  // The length of all closed stretches. Waits until the last of them is over.
  double seconds();

 private:
  struct Point {
    std::shared_ptr<void> event;  // null on the CPU
    std::chrono::steady_clock::time_point time;
  };
  struct Stretch {
    Point first, second;
  };

  void mark(Point& point);
  void add_up();

  static constexpr std::size_t most_open = 256;  // stretches whose events are kept before they are added up

  Stream stream_;
  std::vector<Stretch> stretches_;  // the first `used_` of them; the others' events are used again
  std::size_t used_ = 0;
  bool running_ = false;
  double seconds_ = 0;
};

}  // namespace bevel
