#include "common_options.h"

namespace bbox {

void DataOptions::add_to(CLI::App& app) {
  app.add_option("--data", folder, "Folder of annotated pictures; without it the program draws pictures")
      ->default_str("none");
  app.add_option("--format", format, "How they are annotated. voc: Pascal VOC, an XML file a picture")
      ->check(CLI::IsMember({"voc"}))
      ->capture_default_str();
  app.add_option("--class", class_name, "Class to find; pictures with exactly one box of it are used")
      ->default_str("the only one");
}

void add_device(CLI::App& app, std::string& device) {
  app.add_option("--device", device, "cpu, cuda, cuda:1, ..., or auto: the GPU where there is one")
      ->capture_default_str();
}

void add_weights(CLI::App& app, std::string& weights) {
  app.add_option("--weights", weights, "File of weights that bbox train wrote")->capture_default_str();
}

}  // namespace bbox
