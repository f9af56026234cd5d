// The ceiling: kernels that only move memory, measured in the same run, on the same sizes and with as many rotating
// sets as what they are compared with.
#pragma once

#include "bench/case.h"
#include "bench/sampling.h"

#include <array>
#include <map>
#include <tuple>

namespace bevel::bench {

inline constexpr int most_reads = 3;

// One pass: reads[0..] are read, and their sum (of bits) is written if `write` is not null.
struct PlainPass {
  std::array<const void*, most_reads> reads{};
  int read_count = 1;
  void* write = nullptr;
  std::int64_t bytes = 0;  // of each tensor
};

// How many ways there are to run a pass: grid sizes, loads in flight, streaming stores. The ceiling is the best of
// them.
int plain_ways(Cpu);
int plain_ways(Cuda backend);
void run_plain(Cpu, const PlainPass& pass, int way);
void run_plain(Cuda backend, const PlainPass& pass, int way);

// Times of plain passes, each measured once a run.
class Ceiling {
 public:
  Ceiling(Device device, Rotation rotation, double min_time)
      : device_(device), rotation_(rotation), min_time_(min_time) {}

  // Seconds of the best plain pass over tensors of `tensor_bytes`.
  double seconds(Traffic traffic, std::int64_t tensor_bytes);
  // Bytes a second.
  double bandwidth(Traffic traffic, std::int64_t tensor_bytes) {
    return static_cast<double>(traffic.tensors() * tensor_bytes) / seconds(traffic, tensor_bytes);
  }
  // Seconds of all of them, one after the other.
  double seconds(const std::vector<Traffic>& floor, std::int64_t tensor_bytes);

 private:
  double measure(Traffic traffic, std::int64_t tensor_bytes);

  Device device_;
  Rotation rotation_;
  double min_time_;
  std::map<std::tuple<int, int, std::int64_t>, double> known_;
};

}  // namespace bevel::bench
