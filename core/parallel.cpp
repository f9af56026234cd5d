#include <bevel/core/error.h>
#include <bevel/core/parallel.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#define EIGEN_USE_THREADS
#include <unsupported/Eigen/CXX11/ThreadPool>

namespace bevel {

namespace {

thread_local bool inside_tile = false;

int initial_threads() {
  if (const char* text = std::getenv("BEVEL_THREADS")) {
    const int count = std::atoi(text);
    if (count >= 1) return count;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

struct Pool {
  int threads = initial_threads();
  std::unique_ptr<Eigen::ThreadPool> workers;  // threads - 1 of them, made at first use
};

Pool& pool() {
  static Pool instance;
  return instance;
}

// One parallel_for: threads draw tiles from a counter until none is left.
struct Job {
  std::int64_t count;
  const std::function<void(std::int64_t)>& tile;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error{};
  std::mutex mutex{};
  std::condition_variable all_left{};
  int helpers;

  void work() {
    inside_tile = true;
    for (std::int64_t i = next++; i < count && !failed; i = next++) {
      try {
        tile(i);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
    inside_tile = false;
  }

  void leave() {
    const std::lock_guard lock(mutex);
    if (--helpers == 0) all_left.notify_one();
  }
};

}  // namespace

int num_threads() {
  return pool().threads;
}

void set_num_threads(int count) {
  require(count >= 1, "set_num_threads: expected at least 1; got ", count);
  pool().workers.reset();
  pool().threads = count;
}

void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& tile) {
  const int helpers = static_cast<int>(std::min<std::int64_t>(pool().threads - 1, count - 1));
  if (helpers <= 0 || inside_tile) {
    for (std::int64_t i = 0; i < count; ++i) tile(i);
    return;
  }
  static std::mutex starting;
  {
    const std::lock_guard lock(starting);
    if (!pool().workers) pool().workers = std::make_unique<Eigen::ThreadPool>(pool().threads - 1);
  }
  Job job{.count = count, .tile = tile, .helpers = helpers};
  for (int i = 0; i < helpers; ++i)
    pool().workers->Schedule([&job] {
      job.work();
      job.leave();
    });
  job.work();
  std::unique_lock lock(job.mutex);
  job.all_left.wait(lock, [&] { return job.helpers == 0; });
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace bevel
