// Random numbers for pictures: a stream depends on its keys alone, not on what was drawn before from others.
#pragma once

#include <cstdint>

namespace bbox {

/// A stream of numbers named by up to three keys, such as (seed, epoch, index).
/// The generator is SplitMix64 (Steele, Lea, Flood 2014): a counter through a mixing function.
class Draws {
 public:
  explicit Draws(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0)
      : state_(mix(mix(mix(a + kStep) ^ (b + kStep)) ^ (c + 2 * kStep))) {}

  std::uint64_t bits() { return mix(state_ += kStep); }

  /// In [0, 1).
  float uniform() { return static_cast<float>(bits() >> 40) * 0x1p-24f; }
  /// In [low, high).
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /// One of 0 ... count - 1; count is at least 1. The bias of 2^-40 or so does not matter for pictures.
  int below(int count) { return static_cast<int>((bits() >> 32) * static_cast<std::uint64_t>(count) >> 32); }
  bool chance(float probability) { return uniform() < probability; }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;

  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace bbox
