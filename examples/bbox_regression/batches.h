// What the DataLoader reads: pictures as bytes, what is to be done to them, and their boxes.
#pragma once

#include <bevel/nn/data/dataset.h>

#include <array>
#include <cstdint>
#include <span>

#include "pictures.h"

namespace bbox {

// Samples are {picture u8 [size, size, 3], its row of bevel::warp_images f32 [5], box f32 [4] in centre form}. The box
// is where the object lies after the warp.
using SampleSpecs = std::array<bevel::TensorSpec, 3>;

// Pictures in memory; with `augment` each is changed at random, by seed, index and epoch alone (augment.h).
class PictureDataset {
 public:
  // The set must live as long as this.
  PictureDataset(const PictureSet& set, bool augment, std::uint64_t seed);

  std::int64_t size() const { return static_cast<std::int64_t>(set_->size()); }
  SampleSpecs specs() const;
  void fill(std::int64_t index, std::int64_t epoch, std::span<bevel::Tensor> slots) const;

 private:
  const PictureSet* set_;
  bool augment_;
  std::uint64_t seed_;
};

// Pictures drawn when they are asked for, new ones in every epoch: number index + epoch * count of the series.
class DrawnDataset {
 public:
  DrawnDataset(std::uint64_t seed, std::int64_t count, int size) : seed_(seed), count_(count), size_(size) {}

  std::int64_t size() const { return count_; }
  SampleSpecs specs() const;
  void fill(std::int64_t index, std::int64_t epoch, std::span<bevel::Tensor> slots) const;

 private:
  std::uint64_t seed_;
  std::int64_t count_;
  int size_;
};

}  // namespace bbox
