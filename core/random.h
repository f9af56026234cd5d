// Random state. Every random operator takes its numbers from Philox (philox.h) at (seed, offset), so a seed gives the
// same stream on CPU and GPU, whatever the number of threads.
#pragma once

#include <cstdint>

namespace bevel {

// A place in a random stream: the key, and the first counter that an operator may use. In a captured step both are
// known at a replay only: the place is then `*base`, in device memory, and `offset` counters on.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  const RandomState* base = nullptr;
};

// A source of places. Thread safe.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : state_{.seed = seed} {}
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  void seed(std::uint64_t seed);
  RandomState state() const;
  void set_state(RandomState state);

  // Reserves `counters` counters (four 32-bit words each) and returns where they begin.
  RandomState reserve(std::uint64_t counters);

 private:
  RandomState state_;
};

// The generator used where none is given.
Generator& default_generator();

// default_generator().seed(seed): everything random that follows is determined.
void manual_seed(std::uint64_t seed);

}  // namespace bevel
