// Random numbers for pictures: a stream depends on its keys alone, not on what was drawn before from others.
#pragma once

#include <cstdint>

#include <bevel/core/philox.h>

namespace bbox {

// A stream of numbers named by a seed, an index and a round (of which the lower 32 bits count): Philox counted upwards.
class Draws {
 public:
  explicit Draws(std::uint64_t seed, std::uint64_t index = 0, std::uint64_t round = 0)
      : seed_(seed), index_(index), counter_(round << 32) {}

  std::uint32_t bits() {
    if (left_ == 0) {
      words_ = bevel::philox(seed_, counter_++, index_);
      left_ = 4;
    }
    return words_.word[4 - left_--];
  }

  // In [0, 1).
  float uniform() { return bevel::uniform_float(bits()); }
  // In [low, high).
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  // One of 0 ... count - 1; count is at least 1. Some come up more often by 2^-32 or so; no picture shows that.
  int below(int count) { return static_cast<int>(std::uint64_t{bits()} * static_cast<std::uint64_t>(count) >> 32); }
  bool chance(float probability) { return uniform() < probability; }

 private:
  std::uint64_t seed_, index_, counter_;
  bevel::Philox4 words_{};
  int left_ = 0;
};

}  // namespace bbox
