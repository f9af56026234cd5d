#include <iostream>
#include <memory>
#include <string>

#include "commands.h"
#include "common_options.h"
#include "evaluate.h"
#include "image_io.h"
#include "settings.h"
#include "weights.h"

namespace bbox {
namespace {

struct EvalOptions {
  DataOptions data;
  std::string weights = "runs/bbox/best.safetensors";
  std::string device = "auto";
  int pictures = recipe_for_drawn().drawn_held_out;
  std::string sheet;
};

// The pictures that the network has not been trained on, and the mean box of those that it has.
struct HeldOut {
  PictureSet pictures;
  CentreBox mean;
};

HeldOut load(const EvalOptions& options, const Trained& trained) {
  const int size = trained.model.options().size;
  if (options.data.folder.empty()) {
    bevel::require(trained.card.class_name == drawn_class, options.weights, ": trained to find \"",
                   trained.card.class_name, "\" in pictures from files: give their folder by --data");
    bevel::require(options.pictures >= 1, "--pictures must be at least 1, not ", options.pictures);
    const auto count = static_cast<std::size_t>(options.pictures);
    return {draw_pictures(held_out_series(trained.card.seed), 0, count, size),
            mean_box(draw_pictures(trained.card.seed, 0, 1000, size).boxes)};
  }
  const bool named = !options.data.class_name.empty() || trained.card.class_name == drawn_class;
  Pictures pictures =
      load_voc_pictures(options.data.folder, named ? options.data.class_name : trained.card.class_name, size);
  std::cout << options.data.folder << ": " << pictures.report << '\n';
  return {std::move(pictures.held_out), mean_box(pictures.train.boxes)};
}

void run(const EvalOptions& options) {
  const bevel::Device device = bevel::parse_device(options.device);
  Trained trained = load_weights(options.weights);
  std::cout << options.weights << ": " << describe(trained) << '\n';
  const HeldOut held_out = load(options, trained);
  trained.model.to(device);
  const std::vector<CentreBox> predicted = predict_boxes(trained.model, held_out.pictures);
  std::cout << '\n';
  print_table(std::cout, {{"the network", score(predicted, held_out.pictures.boxes)},
                          {"always the mean training box", score_constant(held_out.mean, held_out.pictures.boxes)}});
  if (!options.sheet.empty()) write_png(options.sheet, prediction_sheet(held_out.pictures, predicted));
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("eval", "Judge weights by pictures that were held out of their training");
  auto options = std::make_shared<EvalOptions>();
  add_weights(*sub, options->weights);
  options->data.add_to(*sub);
  sub->add_option("--pictures", options->pictures, "Pictures to draw, without --data")->capture_default_str();
  sub->add_option("--sheet", options->sheet, "PNG file for a sheet of pictures, true box green, predicted red")
      ->default_str("none");
  add_device(*sub, options->device);
  sub->callback([options] { run(*options); });
}

}  // namespace bbox
