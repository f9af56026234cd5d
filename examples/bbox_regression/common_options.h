// Options that several commands have.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace bbox {

struct DataOptions {
  std::string folder;  // empty: drawn pictures
  std::string format = "voc";
  std::string class_name;  // empty: the only one there is

  void add_to(CLI::App& app);
};

void add_device(CLI::App& app, std::string& device);
void add_weights(CLI::App& app, std::string& weights);

}  // namespace bbox
