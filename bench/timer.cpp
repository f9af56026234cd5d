#include "bench/timer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

namespace bevel::bench {

Elapsed run_calls(Cpu, const Calls& calls, std::int64_t first, std::int64_t count) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = first; i < first + count; ++i) calls(i);
  return {0, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "CPU";
}

std::int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t kilobytes = 0;
    if (words >> key >> kilobytes && key == "MemAvailable:") return kilobytes * 1024;
  }
  return std::int64_t{4} << 30;
}

}  // namespace

DeviceInfo device_info(Cpu) {
  std::int64_t cache = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  if (cache <= 0) cache = std::int64_t{32} << 20;
  return {processor_name(), cache, available_memory()};
}

}  // namespace bevel::bench
