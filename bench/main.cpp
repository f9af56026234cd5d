// bevel_bench: see --help and docs/benchmarks.md.
#include "bench/host.h"
#include "bench/result.h"

#include <bevel/core/memory.h>
#include <bevel/core/parallel.h>
#include <bevel/core/stream.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <ctime>
#include <iostream>
#include <optional>
#include <regex>

namespace bevel::bench {

namespace {

struct Options {
  std::string group = "all";
  std::string device = "auto";
  std::vector<std::string> dtypes;
  std::vector<std::string> shapes;
  std::string filter;
  std::string json;
  std::string plot;
  double min_time = 0;
  int threads = 0;
  std::int64_t rotate_mib = -1;
  bool quick = false;
  bool list = false;
};

Dtype parse_dtype(const std::string& text) {
  for (const Dtype dtype : {f32, f64, bf16, f16})
    if (text == name(dtype)) return dtype;
  fail("bevel_bench: --dtype: expected f32, f64, bf16 or f16; got '", text, "'");
}

std::vector<Case> select_cases(const Options& options, Device device) {
  Selection selection{.device = device};
  for (const std::string& text : options.dtypes) selection.dtypes.push_back(parse_dtype(text));
  for (const std::string& text : options.shapes) selection.shapes.push_back(parse_shape(text));
  using Lister = std::vector<Case> (*)(const Selection&);
  struct Group {
    const char* name;
    Lister cases;
  };
  constexpr Group groups[] = {{"smooth_l1", smooth_l1_cases}, {"losses", loss_cases},
                              {"evonorm", evonorm_cases},     {"conv2d", conv2d_cases},
                              {"regressor", regressor_cases}, {"optimizer", optimizer_cases}};
  const std::regex filter(options.filter);
  std::vector<Case> chosen;
  for (const Group& group : groups) {
    if (options.group != "all" && options.group != group.name) continue;
    for (Case& each : group.cases(selection))
      if ((!options.quick || each.quick) && std::regex_search(each.name(), filter)) chosen.push_back(std::move(each));
  }
  return chosen;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// Sizes at which the ceilings of the whole report are measured: far beyond any cache, as far as memory allows.
std::int64_t ceiling_bytes(Device device, const Rotation& rotation) {
  const std::int64_t wanted = std::int64_t{1} << (device.is_cuda() ? 30 : 26);
  std::int64_t bytes = wanted;
  while (bytes > (1 << 20) && 4 * bytes > rotation.memory) bytes /= 2;
  return bytes;
}

void measure_ceilings(Report& report, Ceiling& ceiling, std::int64_t bytes) {
  struct Kind {
    const char* name;
    Traffic traffic;
  };
  for (const Kind& kind :
       {Kind{"copy", {1, 1}}, Kind{"read 2, write 1", {2, 1}}, Kind{"read 2", {2, 0}}, Kind{"read 1", {1, 0}}})
    report.ceilings.push_back({kind.name, kind.traffic, bytes, ceiling.bandwidth(kind.traffic, bytes)});
}

// Four times a GPU's L2. A CPU's last level may be hundreds of MiB shared with others: twice that, at most 1 GiB.
Rotation make_rotation(const Options& options, Device device, const DeviceInfo& info) {
  const std::int64_t usual =
      device.is_cuda() ? 4 * info.cache_bytes : std::min(2 * info.cache_bytes, std::int64_t{1} << 30);
  return {options.rotate_mib < 0 ? usual : std::max<std::int64_t>(1, options.rotate_mib << 20),
          info.free_bytes / 10 * (device.is_cuda() ? 6 : 5)};
}

int run(const Options& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  const Device device = parse_device(options.device);
  if (options.group == "host" || options.group == "mlp_step") {
    const auto print = options.group == "host" ? print_host_overhead : print_mlp_step;
    print(device, options.min_time > 0 ? options.min_time : 0.2);
    return 0;
  }
  const std::vector<Case> cases = select_cases(options, device);
  require(!cases.empty(), "bevel_bench: no case is left by these options; see --list");
  if (options.list) {
    for (const Case& each : cases) std::cout << each.name() << "\n";
    return 0;
  }
  // One stream of our own: all buffers belong to it, so that no wait for another stream gets into a captured graph.
  const StreamGuard guard{Stream(device)};
  const DeviceInfo info = on(device, [](auto backend) { return device_info(backend); });
  const double min_time = options.min_time > 0 ? options.min_time : options.quick ? 0.02 : 0.2;
  const Rotation rotation = make_rotation(options, device, info);
  Ceiling ceiling(device, rotation, std::min(min_time, 0.05));
  Report report{.device = message(device),
                .device_name = info.name,
                .date = now_utc(),
                .threads = num_threads(),
                .cache_bytes = info.cache_bytes,
                .min_time = min_time,
                .ceilings = {},
                .results = {}};
  measure_ceilings(report, ceiling, ceiling_bytes(device, rotation));
  print_ceilings(report);
  print_header(device.is_cuda());
  for (const Case& each : cases) {
    report.results.push_back(measure(each, device, rotation, ceiling, report.ceilings[0].bandwidth, min_time));
    print_row(report.results.back());
    release_cached_memory(device);
  }
  print_pairs(report);
  if (!options.json.empty()) write_json(report, options.json);
  if (!options.plot.empty()) write_plot(report, options.plot);
  const auto failed = [](const Result& result) { return !result.error.empty(); };
  return std::any_of(report.results.begin(), report.results.end(), failed) ? 1 : 0;
}

int run_command(int argc, char** argv) {
  Options options;
  CLI::App app{"Times Bevel's operators through the public API and compares them with the memory's ceiling."};
  app.add_option("group", options.group, "what to measure")
      ->check(CLI::IsMember(
          {"all", "smooth_l1", "losses", "evonorm", "conv2d", "regressor", "optimizer", "host", "mlp_step"}))
      ->capture_default_str();
  app.add_option("--device", options.device, "cpu, cuda, cuda:1 or auto")->capture_default_str();
  app.add_option("--dtype", options.dtypes, "f32, f64, bf16, f16; several, separated by commas")->delimiter(',');
  app.add_option("--shape", options.shapes, "shapes in place of the usual ones: 2^24, 32x64x56x56; for evonorm NxCxHxW")
      ->delimiter(',');
  app.add_option("--filter", options.filter, "only cases whose name matches this regular expression; see --list");
  app.add_option("--min-time", options.min_time, "seconds of samples for each figure; default 0.2, with --quick 0.02");
  app.add_option("--threads", options.threads, "CPU threads; default: all");
  app.add_option(
      "--rotate-mib", options.rotate_mib,
      "MiB of tensors to rotate over, so that inputs come from memory; default 4x L2 (CPU: 2x the last cache)");
  app.add_flag("--quick", options.quick, "the cases that matter most, in less than a minute");
  app.add_flag("--list", options.list, "print the names of the cases and stop");
  app.add_option("--json", options.json, "write the results to this file");
  app.add_option("--plot", options.plot, "draw the results into this SVG file");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}

}  // namespace

}  // namespace bevel::bench

int main(int argc, char** argv) try {
  return bevel::bench::run_command(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 2;
}
