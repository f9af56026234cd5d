// Streams: queues of work on a CUDA device. Each thread has a current stream per device; without further ado that is
// one stream made by the library, shared by all threads. Kernels are launched on the current stream.
#pragma once

#include <bevel/core/device.h>

#include <memory>

namespace bevel {

// A handle to a queue. The CPU has no queues: its Stream is empty and does nothing.
class Stream {
 public:
  Stream() = default;
  // A new queue on `device`, destroyed with the last handle; memory last used on it stays valid.
  explicit Stream(Device device);

  Device device() const { return device_; }
  // The cudaStream_t, or nullptr for the CPU.
  void* handle() const { return handle_.get(); }
  // Waits until all work queued so far is done.
  void synchronize() const;

  friend bool operator==(const Stream& a, const Stream& b) { return a.handle_ == b.handle_; }

 private:
  Device device_;
  std::shared_ptr<void> handle_;
};

// The calling thread's current stream on `device`; the reference is good as long as it is the current one.
const Stream& current_stream(Device device);

// Work queued on `later` from now on starts after the work queued on `earlier` up to now.
void order(const Stream& earlier, const Stream& later);

// Makes `stream` current for this thread while the guard lives.
class StreamGuard {
 public:
  explicit StreamGuard(Stream stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream stream_;
  Stream* previous_;
};

}  // namespace bevel
