// The tables on the terminal.
#include "bench/result.h"

#include <cstdio>

namespace bevel::bench {

namespace {
constexpr int name_width = 58;

std::string number(double value, int decimals) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

// Microseconds with about four digits.
std::string micros(double seconds) {
  const double value = seconds * 1e6;
  return number(value, value < 10 ? 2 : value < 1000 ? 1 : 0);
}

std::string percent(double share) {
  return number(100 * share, 1) + " %";
}

void print_cells(const std::string& name, const std::vector<std::string>& cells) {
  std::printf("%-*s", name_width, name.c_str());
  for (const std::string& cell : cells) std::printf(" %10s", cell.c_str());
  std::printf("\n");
  std::fflush(stdout);
}
}  // namespace

void print_ceilings(const Report& report) {
  std::printf("%s (%s), %d CPU threads, %s\n", report.device_name.c_str(), report.device.c_str(), report.threads,
              report.date.c_str());
  for (const CeilingRow& row : report.ceilings)
    std::printf("  ceiling, %-16s %9.1f GB/s   (tensors of %lld MiB)\n", row.name.c_str(), row.bandwidth * 1e-9,
                static_cast<long long>(row.tensor_bytes >> 20));
  std::printf("\n");
}

void print_header(bool is_cuda) {
  if (is_cuda)
    print_cells("case", {"graph us", "events us", "wall us", "MB", "GB/s", "of copy", "of plain", "extra MB"});
  else
    print_cells("case", {"wall us", "MB", "GB/s", "of copy", "of plain", "extra MB"});
}

void print_row(const Result& result) {
  if (!result.error.empty()) {
    std::printf("%-*s error: %s\n", name_width, result.measured.name().c_str(), result.error.c_str());
    return;
  }
  std::vector<std::string> cells;
  if (result.events > 0) cells = {result.graph > 0 ? micros(result.graph) : "-", micros(result.events)};
  cells.push_back(micros(result.wall));
  cells.push_back(number(static_cast<double>(result.measured.bytes()) * 1e-6, 2));
  cells.push_back(number(result.bandwidth() * 1e-9, 1));
  cells.push_back(percent(result.bandwidth() / result.copy_bandwidth));
  cells.push_back(percent(result.plain / result.time()));
  cells.push_back(number(static_cast<double>(result.extra_bytes) * 1e-6, 2));
  print_cells(result.measured.name(), cells);
  if (!result.engine.empty())
    std::printf("    floors: bytes %s us, arithmetic %s us; engine %s\n", micros(result.plain).c_str(),
                micros(result.arithmetic).c_str(), result.engine.c_str());
  if (!result.graph_error.empty()) std::printf("    no graph: %s\n", result.graph_error.c_str());
}

void print_pairs(const Report& report) {
  bool is_first = true;
  for (const Result& fused : report.results) {
    if (fused.measured.variant != "fused" || !fused.error.empty()) continue;
    for (const Result& other : report.results) {
      Case same = other.measured;
      same.variant = "fused";
      const bool is_pair = other.measured.variant == "unfused" && same.name() == fused.measured.name();
      if (!is_pair || !other.error.empty()) continue;
      if (is_first) {
        std::printf("\n");
        print_cells("fused against unfused", {"fused us", "unfused us", "times", "extra MB", "unfused MB"});
      }
      is_first = false;
      print_cells(fused.measured.name(),
                  {micros(fused.time()), micros(other.time()), number(other.time() / fused.time(), 2),
                   number(static_cast<double>(fused.extra_bytes) * 1e-6, 2),
                   number(static_cast<double>(other.extra_bytes) * 1e-6, 2)});
    }
  }
}

}  // namespace bevel::bench
