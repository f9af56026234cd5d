// Batches prepared in order by worker threads, behind DataLoader.
#pragma once

#include <bevel/core/detail/pool.h>
#include <bevel/core/stream.h>
#include <bevel/core/tensor.h>
#include <bevel/nn/data/dataset.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace bevel {

// Order of the fields as given.
struct DataLoaderOptions {
  std::int64_t batch = 1;     // samples a batch
  bool shuffle = false;       // another order in every epoch, determined by seed and epoch
  std::uint64_t seed = 0;     // of the order
  int workers = 1;            // threads that prepare batches ahead; 0: the consumer prepares each when it is asked for
  Device device = cpu;        // where batches are handed out
  bool drop_last = false;     // leave out a last batch that is smaller than the others
  std::int64_t prefetch = 0;  // most batches prepared ahead; 0: two for each worker
};

namespace detail {

// Where batches are put together: pinned memory if they go on to a GPU, which then fetches them by itself.
class Staging {
 public:
  explicit Staging(Device destination) {
    if (destination.is_cuda()) pool_ = MemoryPool::pinned(destination);
  }
  // On the CPU.
  Tensor empty(const Shape& shape, Dtype dtype) const;

 private:
  std::shared_ptr<MemoryPool> pool_;
};

// The parts of one batch, in memory of the staging, for these samples.
using PrepareBatch = std::function<std::vector<Tensor>(std::span<const std::int64_t> samples, std::int64_t epoch,
                                                       const Staging& staging)>;

// The order of samples in an epoch: 0, 1, 2, ... or a permutation determined by seed and epoch.
std::vector<std::int64_t> sample_order(std::int64_t samples, bool shuffle, std::uint64_t seed, std::int64_t epoch);

// One batch, allocated as `specs` say and written sample by sample.
std::vector<Tensor> fill_batch(std::span<const TensorSpec> specs, std::span<const std::int64_t> samples,
                               const Staging& staging,
                               const std::function<void(std::int64_t sample, std::span<Tensor> slots)>& fill);
// One batch, made of copies of samples like the first. Error naming the sample that differs.
std::vector<Tensor> copy_batch(std::span<const std::int64_t> samples, const Staging& staging,
                               const std::function<std::vector<Tensor>(std::int64_t sample)>& get);

// Batches in a sample count.
std::int64_t batch_count(std::int64_t samples, const DataLoaderOptions& options);

class Batches {
 public:
  // Error for options out of range.
  Batches(std::int64_t samples, const DataLoaderOptions& options, PrepareBatch prepare);
  ~Batches();
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  // Begins an epoch; one that is under way is given up.
  void start(std::int64_t epoch);
  // The next batch, on the device; empty at the end of the epoch. An exception of the dataset is thrown here, when the
  // turn of its batch has come, and ends the epoch.
  std::vector<Tensor> next();
  // Ends the epoch and its threads.
  void stop();

 private:
  struct Epoch;

  void work(Epoch& epoch, std::size_t worker);
  std::vector<Tensor> make(const Epoch& epoch, std::int64_t batch) const;

  std::int64_t samples_;
  DataLoaderOptions options_;
  PrepareBatch prepare_;
  Staging staging_;
  std::vector<Stream> streams_;  // of each worker, for its copies to the device
  std::unique_ptr<Epoch> epoch_;
};

}  // namespace detail

}  // namespace bevel
