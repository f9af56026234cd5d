// The JSON file. docs/benchmarks.md lists its fields.
#include "bench/result.h"

#include <nlohmann/json.hpp>

#include <fstream>

namespace bevel::bench {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Traffic& traffic) {
  return {{"reads", traffic.reads}, {"writes", traffic.writes}};
}

Json json_of(const Result& result) {
  const Case& c = result.measured;
  Json json{{"name", c.name()},       {"op", c.op},         {"shape", c.shape},
            {"dtype", name(c.dtype)}, {"detail", c.detail}, {"pass", c.pass},
            {"variant", c.variant},   {"bytes", c.bytes()}, {"tensor_bytes", c.tensor_bytes}};
  for (const Traffic& traffic : c.floor) json["floor"].push_back(json_of(traffic));
  if (!result.error.empty()) {
    json["error"] = result.error;
    return json;
  }
  const auto micros = [](double seconds) { return seconds > 0 ? Json(seconds * 1e6) : Json(nullptr); };
  json["sets"] = result.sets;
  json["us"] = micros(result.time());
  json["graph_us"] = micros(result.graph);
  json["events_us"] = micros(result.events);
  json["wall_us"] = micros(result.wall);
  json["plain_us"] = micros(result.plain);
  json["bytes_per_second"] = result.bandwidth();
  json["share_of_copy"] = result.bandwidth() / result.copy_bandwidth;
  json["share_of_plain"] = result.plain / result.time();
  json["extra_bytes"] = result.extra_bytes;
  if (result.arithmetic > 0) json["arithmetic_us"] = result.arithmetic * 1e6;
  if (!result.engine.empty()) json["engine"] = result.engine;
  if (!result.graph_error.empty()) json["graph_error"] = result.graph_error;
  return json;
}

}  // namespace

void write_json(const Report& report, const std::string& path) {
  Json json;
  json["context"] = {
      {"date", report.date},       {"device", report.device},           {"device_name", report.device_name},
      {"threads", report.threads}, {"cache_bytes", report.cache_bytes}, {"min_time", report.min_time}};
  json["ceilings"] = Json::array();
  for (const CeilingRow& row : report.ceilings) {
    Json ceiling = json_of(row.traffic);
    ceiling["name"] = row.name;
    ceiling["tensor_bytes"] = row.tensor_bytes;
    ceiling["bytes_per_second"] = row.bandwidth;
    json["ceilings"].push_back(std::move(ceiling));
  }
  json["results"] = Json::array();
  for (const Result& result : report.results) json["results"].push_back(json_of(result));
  std::ofstream file(path);
  file << json.dump(2) << "\n";
  file.close();
  require(!file.fail(), "bevel_bench: cannot write ", path);
}

}  // namespace bevel::bench
