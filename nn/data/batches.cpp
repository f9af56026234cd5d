#include <bevel/core/autograd.h>
#include <bevel/core/philox.h>
#include <bevel/core/profile.h>
#include <bevel/nn/data/detail/batches.h>

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

namespace bevel::detail {

std::vector<std::int64_t> sample_order(std::int64_t samples, bool shuffle, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!shuffle) return order;
  // Fisher-Yates. The high half of a 64-bit random number times n is uniform below n up to n / 2^64.
  for (std::size_t i = order.size(); i > 1; --i) {
    const Philox4 words = philox(seed, i, static_cast<std::uint64_t>(epoch));
    const std::uint64_t random = (std::uint64_t{words.word[0]} << 32) | words.word[1];
    __extension__ using Wide = unsigned __int128;
    std::swap(order[i - 1], order[static_cast<std::size_t>((Wide{random} * i) >> 64)]);
  }
  return order;
}

Tensor Staging::empty(const Shape& shape, Dtype dtype) const {
  if (!pool_ || shape.numel() == 0) return Tensor::empty(shape, {.dtype = dtype});
  auto impl = std::make_shared<TensorImpl>();
  impl->shape = shape;
  impl->dtype = dtype;
  impl->buffer = pool_->allocate(static_cast<std::size_t>(shape.numel() * size_of(dtype)));
  return Tensor(std::move(impl));
}

std::vector<Tensor> fill_batch(std::span<const TensorSpec> specs, std::span<const std::int64_t> samples,
                               const Staging& staging,
                               const std::function<void(std::int64_t, std::span<Tensor>)>& fill) {
  std::vector<Tensor> parts;
  for (const TensorSpec& spec : specs)
    parts.push_back(staging.empty(spec.shape.inserted(0, static_cast<std::int64_t>(samples.size())), spec.dtype));
  std::vector<Tensor> slots(specs.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t k = 0; k < specs.size(); ++k)
      slots[k] = parts[k].view(specs[k].shape, static_cast<std::int64_t>(i) * specs[k].shape.numel());
    fill(samples[i], slots);
  }
  return parts;
}

std::vector<Tensor> copy_batch(std::span<const std::int64_t> samples, const Staging& staging,
                               const std::function<std::vector<Tensor>(std::int64_t)>& get) {
  std::vector<Tensor> first = get(samples[0]);
  std::vector<TensorSpec> specs;
  specs.reserve(first.size());
  for (const Tensor& part : first) specs.push_back({part.shape(), part.dtype()});
  bool at_first = true;
  return fill_batch(specs, samples, staging, [&](std::int64_t sample, std::span<Tensor> slots) {
    const std::vector<Tensor> tensors = at_first ? std::move(first) : get(sample);
    at_first = false;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      require(tensors[k].shape() == specs[k].shape && tensors[k].dtype() == specs[k].dtype, "DataLoader: part ", k,
              " of sample ", sample, " is ", tensors[k].dtype(), " ", tensors[k].shape(),
              "; in other samples of the batch it is ", specs[k].dtype, " ", specs[k].shape);
      copy_bytes(slots[k].raw(), cpu, tensors[k].raw(), tensors[k].device(),
                 static_cast<std::size_t>(tensors[k].bytes()));
    }
  });
}

std::int64_t batch_count(std::int64_t samples, const DataLoaderOptions& options) {
  return options.drop_last ? samples / options.batch : (samples + options.batch - 1) / options.batch;
}

// What the threads of one epoch share.
struct Batches::Epoch {
  struct Result {
    std::vector<Tensor> parts;
    std::exception_ptr error;
  };

  std::int64_t number = 0;
  std::vector<std::int64_t> order;
  std::int64_t count = 0;  // batches

  std::mutex mutex;
  std::condition_variable room;   // for workers: a batch was handed out, or the epoch is given up
  std::condition_variable ready;  // for the consumer: a batch was prepared
  std::int64_t next_to_prepare = 0;
  std::int64_t handed_out = 0;
  bool stopping = false;
  std::map<std::int64_t, Result> results;
  std::vector<std::thread> threads;

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    room.notify_all();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

Batches::Batches(std::int64_t samples, const DataLoaderOptions& options, PrepareBatch prepare)
    : samples_(samples), options_(options), prepare_(std::move(prepare)), staging_(options.device) {
  require(samples >= 0, "DataLoader: the dataset's size must not be negative; it is ", samples);
  require(options.batch >= 1, "DataLoader: batch must be at least 1; got ", options.batch);
  require(options.workers >= 0, "DataLoader: workers must not be negative; got ", options.workers);
  require(options.prefetch >= 0, "DataLoader: prefetch must not be negative; got ", options.prefetch);
  if (options_.prefetch == 0) options_.prefetch = 2 * std::int64_t{options.workers};
  if (options.device.is_cuda())
    for (int i = 0; i < options.workers; ++i) streams_.emplace_back(options.device);
}

Batches::~Batches() {
  stop();
}

void Batches::stop() {
  if (epoch_) epoch_->stop();
  epoch_.reset();
}

void Batches::start(std::int64_t epoch) {
  stop();
  epoch_ = std::make_unique<Epoch>();
  epoch_->number = epoch;
  epoch_->order = sample_order(samples_, options_.shuffle, options_.seed, epoch);
  epoch_->count = batch_count(samples_, options_);
  try {
    for (int i = 0; i < options_.workers; ++i)
      epoch_->threads.emplace_back([this, &state = *epoch_, i] { work(state, static_cast<std::size_t>(i)); });
  } catch (...) {
    stop();
    throw;
  }
}

std::vector<Tensor> Batches::make(const Epoch& epoch, std::int64_t batch) const {
  const NoGrad guard;
  const std::int64_t begin = batch * options_.batch;
  const std::int64_t size = std::min(options_.batch, samples_ - begin);
  std::vector<Tensor> parts =
      prepare_(std::span(epoch.order).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size)),
               epoch.number, staging_);
  for (Tensor& part : parts) part = part.to(options_.device);
  return parts;
}

void Batches::work(Epoch& epoch, std::size_t worker) {
  // Copies go through a stream of this worker's own, so they do not wait for the training step; whoever uses the batch
  // waits for the copy.
  std::unique_ptr<StreamGuard> guard;
  std::unique_lock lock(epoch.mutex);
  for (;;) {
    epoch.room.wait(lock, [&] {
      return epoch.stopping || epoch.next_to_prepare == epoch.count ||
             epoch.next_to_prepare < epoch.handed_out + options_.prefetch;
    });
    if (epoch.stopping || epoch.next_to_prepare == epoch.count) return;
    const std::int64_t batch = epoch.next_to_prepare++;
    lock.unlock();
    Epoch::Result result;
    try {
      if (!streams_.empty() && !guard) guard = std::make_unique<StreamGuard>(streams_[worker]);
      result.parts = make(epoch, batch);
    } catch (...) {
      result.error = std::current_exception();
    }
    lock.lock();
    epoch.results[batch] = std::move(result);
    epoch.ready.notify_one();
  }
}

std::vector<Tensor> Batches::next() {
  if (!epoch_) return {};
  const Range range("data");
  Epoch& epoch = *epoch_;
  if (epoch.handed_out == epoch.count) {
    stop();
    return {};
  }
  Epoch::Result result;
  try {
    if (options_.workers == 0) {
      result.parts = make(epoch, epoch.handed_out++);
    } else {
      std::unique_lock lock(epoch.mutex);
      epoch.ready.wait(lock, [&] { return epoch.results.contains(epoch.handed_out); });
      const auto it = epoch.results.find(epoch.handed_out++);
      result = std::move(it->second);
      epoch.results.erase(it);
      lock.unlock();
      epoch.room.notify_all();
    }
    if (result.error) std::rethrow_exception(result.error);
  } catch (...) {
    stop();
    throw;
  }
  profile_mark("data", "next batch");
  return std::move(result.parts);
}

}  // namespace bevel::detail
