// What was measured, and what is made of it.
#pragma once

#include "bench/case.h"
#include "bench/plain.h"

#include <string>
#include <vector>

namespace bevel::bench {

struct Result {
  Case measured;
  std::int64_t sets = 0;         // of tensors, rotating
  double graph = 0;              // seconds a call in graph replay; 0 on the CPU
  double events = 0;             // seconds a call between events, back to back; 0 on the CPU
  double wall = 0;               // seconds a call by the host's clock, back to back
  double plain = 0;              // seconds of plain kernels that move the same bytes
  double copy_bandwidth = 0;     // the copy ceiling, bytes a second
  double arithmetic = 0;         // seconds of the operations at the rate of a large matrix product; 0 without
  std::string engine = {};       // what computed it, where the case tells
  std::int64_t extra_bytes = 0;  // most memory that a call held beyond its inputs
  std::string error = {};        // why there is no figure
  std::string graph_error = {};  // why there is no graph

  // Graph replay on a GPU, or events where the calls cannot be recorded; the wall clock on the CPU.
  double time() const { return graph > 0 ? graph : events > 0 ? events : wall; }
  double bandwidth() const { return static_cast<double>(measured.bytes()) / time(); }
};

struct CeilingRow {
  std::string name;
  Traffic traffic;
  std::int64_t tensor_bytes = 0;
  double bandwidth = 0;  // bytes a second
};

struct Report {
  std::string device;       // cuda:0
  std::string device_name;  // NVIDIA H200
  std::string date;         // UTC
  int threads = 0;
  std::int64_t cache_bytes = 0;
  double min_time = 0;
  std::vector<CeilingRow> ceilings;
  std::vector<Result> results;
};

// Measures one case. Errors (out of memory above all) are kept in the result.
Result measure(const Case& what, Device device, const Rotation& rotation, Ceiling& ceiling, double copy_bandwidth,
               double min_time);

void print_ceilings(const Report& report);
void print_header(bool is_cuda);
void print_row(const Result& result);
// Fused against unfused, in time and in memory.
void print_pairs(const Report& report);
void write_json(const Report& report, const std::string& path);
void write_plot(const Report& report, const std::string& path);

}  // namespace bevel::bench
