#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "common_options.h"
#include "predict.h"
#include "weights.h"

namespace bbox {
namespace {

struct PredictOptions {
  std::string weights = "runs/bbox/best.safetensors";
  std::vector<std::string> images;
  int draw = 0;
  std::uint64_t seed = 1000;
  std::string out = "predictions";
  std::string sheet;
  std::string device = "auto";
};

void run(const PredictOptions& options) {
  const bevel::Device device = bevel::parse_device(options.device);
  Trained trained = load_weights(options.weights);
  std::cout << options.weights << ": " << describe(trained) << '\n';
  trained.model.to(device);
  if (options.draw > 0) {
    predict_drawn(trained.model, options.seed, options.draw, options.out, options.sheet, std::cout);
    return;
  }
  const std::vector<std::filesystem::path> files(options.images.begin(), options.images.end());
  predict_files(trained.model, files, options.out, options.sheet, std::cout);
}

}  // namespace

void add_predict(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("predict", "Draw the predicted box on pictures");
  auto options = std::make_shared<PredictOptions>();
  add_weights(*sub, options->weights);
  CLI::Option_group* source = sub->add_option_group("pictures", "Where the pictures come from");
  source->add_option("--image", options->images, "JPEG or PNG files, or folders of them");
  source->add_option("--draw", options->draw, "Draw so many pictures instead")->check(CLI::PositiveNumber);
  source->require_option(1);
  sub->add_option("--seed", options->seed, "Which pictures --draw draws")->capture_default_str();
  sub->add_option("--out", options->out, "Folder for the pictures, as NAME_box.png")->capture_default_str();
  sub->add_option("--sheet", options->sheet, "PNG file for a sheet with all of them, small")->default_str("none");
  add_device(*sub, options->device);
  sub->callback([options] { run(*options); });
}

}  // namespace bbox
