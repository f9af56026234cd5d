// DataLoader: goes through a dataset in batches.
//
//   DataLoader loader{dataset, {.batch = 32, .shuffle = true, .device = device}};
//   for (int epoch = 0; epoch < 10; ++epoch)
//     for (auto& [images, boxes] : loader) { ... }
//
// Each loop over the loader is the next epoch, counted from 0. Batches are prepared ahead by worker threads and handed
// out in order; what they hold depends on the dataset, the options and the epoch, never on the number of workers. Part
// k of a batch has the shape of part k of a sample with the number of samples in front.
#pragma once

#include <bevel/nn/data/dataset.h>
#include <bevel/nn/data/detail/batches.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <utility>

namespace bevel {

template <Dataset D>
class DataLoader {
 public:
  static constexpr std::size_t parts = detail::parts_of<D>();
  using Batch = std::array<Tensor, parts>;

  // The dataset must live as long as the loader. Error for options out of range.
  DataLoader(const D& dataset, const DataLoaderOptions& options)
      : samples_(dataset.size()),
        options_(options),
        batches_(samples_, options,
                 [&dataset](std::span<const std::int64_t> samples, std::int64_t epoch, const detail::Staging& staging) {
                   return prepare(dataset, samples, epoch, staging);
                 }) {}
  DataLoader(const D&&, const DataLoaderOptions&) = delete;  // a temporary would be gone before the first batch

  // Samples in the dataset, and batches in an epoch.
  std::int64_t samples() const { return samples_; }
  std::int64_t size() const { return detail::batch_count(samples_, options_); }

  // The epoch under way, or the last one; -1 before the first.
  std::int64_t epoch() const { return next_epoch_ - 1; }
  // The next loop is this epoch; for going on from a checkpoint. Error if negative.
  void set_epoch(std::int64_t epoch) {
    require(epoch >= 0, "DataLoader: the epoch must not be negative; got ", epoch);
    next_epoch_ = epoch;
  }

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    explicit Iterator(DataLoader& loader) : loader_(&loader) {}
    Batch& operator*() const { return loader_->batch_; }
    Batch* operator->() const { return &loader_->batch_; }
    Iterator& operator++() {
      loader_->advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return loader_->done_; }

   private:
    DataLoader* loader_;
  };

  // Begins the next epoch; one that is under way is given up. The batch that an iterator points to is the loader's and
  // lasts until the next one; its tensors may be kept.
  Iterator begin() {
    batches_.start(next_epoch_++);
    advance();
    return Iterator(*this);
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  static std::vector<Tensor> prepare(const D& dataset, std::span<const std::int64_t> samples, std::int64_t epoch,
                                     const detail::Staging& staging) {
    if constexpr (FillDataset<D>)
      return detail::fill_batch(dataset.specs(), samples, staging, [&](std::int64_t sample, std::span<Tensor> slots) {
        dataset.fill(sample, epoch, slots);
      });
    else
      return detail::copy_batch(samples, staging, [&](std::int64_t sample) {
        const auto tensors = detail::get_sample(dataset, sample, epoch);
        return std::vector<Tensor>(tensors.begin(), tensors.end());
      });
  }

  void advance() {
    batch_ = {};
    done_ = true;  // stays so if the next line throws
    std::vector<Tensor> tensors = batches_.next();
    done_ = tensors.empty();
    for (std::size_t k = 0; k < tensors.size(); ++k) batch_[k] = std::move(tensors[k]);
  }

  std::int64_t samples_;
  DataLoaderOptions options_;
  std::int64_t next_epoch_ = 0;
  bool done_ = true;
  Batch batch_;
  detail::Batches batches_;  // last: its threads end before the rest goes
};

}  // namespace bevel
