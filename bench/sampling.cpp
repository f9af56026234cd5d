#include "bench/sampling.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <exception>

namespace bevel::bench {

namespace {
// The times are kept by sample(); nothing is printed.
class SilentReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};
}  // namespace

std::vector<double> sample(const std::string& name, double min_time, int least, const std::function<double()>& take) {
  std::vector<double> samples;
  std::exception_ptr error;
  const auto body = [&](benchmark::State& state) {
    samples.clear();
    for ([[maybe_unused]] const auto& iteration : state) {
      try {
        samples.push_back(take());
        state.SetIterationTime(samples.back());
      } catch (...) {  // it must not pass through Google Benchmark
        error = std::current_exception();
        state.SkipWithError("an exception");
        break;
      }
    }
  };
  benchmark::ClearRegisteredBenchmarks();
  benchmark::RegisterBenchmark(name.c_str(), body)->UseManualTime()->MinTime(min_time);
  SilentReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter, ".");
  benchmark::ClearRegisteredBenchmarks();
  if (error) std::rethrow_exception(error);
  while (static_cast<int>(samples.size()) < least) samples.push_back(take());
  return samples;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::int64_t calls_in_sample(double seconds_a_call, double seconds) {
  return static_cast<std::int64_t>(std::clamp(std::ceil(seconds / std::max(seconds_a_call, 1e-9)), 1.0, 4096.0));
}

}  // namespace bevel::bench
