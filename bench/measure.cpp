#include "bench/result.h"

#include <bevel/core/memory.h>
#include <bevel/ops/matmul/matmul.h>

#include <map>
#include <utility>

namespace bevel::bench {

namespace {

// The most that one call holds beyond its inputs. The set's own leftovers are dropped first.
std::int64_t extra_memory(const Workset& set, Device device) {
  set.drop();
  const auto before = static_cast<std::int64_t>(memory_stats(device).live);
  reset_peak_memory(device);
  set.run();
  return static_cast<std::int64_t>(memory_stats(device).peak) - before;
}

// Rotating sets, each having run twice: whatever is set up at the first call is there, and all memory is cached.
std::vector<Workset> make_sets(const Case& what, Device device, const Rotation& rotation) {
  const auto live = [&] { return static_cast<std::int64_t>(memory_stats(device).live); };
  const std::int64_t before = live();
  std::vector<Workset> sets{what.make(device, 0)};
  sets[0].run();
  sets[0].run();
  const std::int64_t count = rotation.sets(std::max<std::int64_t>(1, live() - before));
  for (std::int64_t i = 1; i < count; ++i) sets.push_back(what.make(device, static_cast<std::uint64_t>(i)));
  for (int round = 0; round < 2; ++round)
    for (const Workset& set : sets) set.run();
  return sets;
}

// Operations a second of a large matrix product with the precision set now, measured once.
double matrix_rate(Dtype dtype, Device device, double min_time) {
  static std::map<std::pair<Dtype, Precision>, double> known;
  double& rate = known[{dtype, matmul_precision()}];
  if (rate > 0) return rate;
  const std::int64_t size = device.is_cuda() ? 8192 : 1024;
  const Tensor a = random({size, size}, dtype, device, 1);
  const Tensor b = random({size, size}, dtype, device, 2);
  const Calls calls = [&](std::int64_t) { matmul(a, b); };
  const double seconds = on(device, [&](auto backend) { return time_bare(backend, calls, 1, min_time); });
  const auto n = static_cast<double>(size);
  return rate = 2 * n * n * n / seconds;
}

void measure_times(Result& result, Device device, const Rotation& rotation, double min_time) {
  const std::vector<Workset> sets = make_sets(result.measured, device, rotation);
  result.sets = static_cast<std::int64_t>(sets.size());
  result.extra_bytes = extra_memory(sets[0], device);
  if (result.measured.engine) result.engine = result.measured.engine();
  if (result.measured.operations > 0)
    result.arithmetic =
        static_cast<double>(result.measured.operations) / matrix_rate(result.measured.dtype, device, min_time);
  const Calls calls = [&](std::int64_t i) { sets[static_cast<std::size_t>(i % result.sets)].run(); };
  const std::string name = result.measured.name();
  on(device, [&](auto backend) {
    const Elapsed elapsed = time_back_to_back(backend, name, calls, result.sets, min_time);
    result.events = elapsed.device;
    result.wall = elapsed.wall;
    if constexpr (std::is_same_v<decltype(backend), Cuda>) {
      try {
        result.graph = time_replay(backend, name, calls, result.sets, min_time);
      } catch (const Error& error) {
        result.graph_error = error.what();
      }
    }
  });
}

}  // namespace

Result measure(const Case& what, Device device, const Rotation& rotation, Ceiling& ceiling, double copy_bandwidth,
               double min_time) {
  Result result{.measured = what, .copy_bandwidth = copy_bandwidth};
  try {
    result.plain = ceiling.seconds(what.floor, what.tensor_bytes);
    measure_times(result, device, rotation, min_time);
  } catch (const Error& error) {
    result.error = error.what();
  }
  return result;
}

}  // namespace bevel::bench
