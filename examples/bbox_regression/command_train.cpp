#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "commands.h"
#include "common_options.h"
#include "progress.h"
#include "trainer.h"

namespace bbox {
namespace {

template <class T>
std::string text_of(const T& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// Options whose default depends on whether pictures come from files or are drawn.
class RecipeOptions {
 public:
  explicit RecipeOptions(CLI::App& app) : app_(app) {}

  // `field` picks the member of the settings that the option sets.
  template <class Field>
  void add(const std::string& flag, const std::string& text, Field field) {
    using T = std::remove_reference_t<decltype(field(std::declval<Settings&>()))>;
    Settings files = recipe_for_files(), drawn = recipe_for_drawn();
    const T one = field(files), other = field(drawn);
    const std::string defaults = one == other ? text_of(one) : text_of(one) + "; drawn pictures: " + text_of(other);
    auto given = std::make_shared<std::optional<T>>();
    app_.add_option(flag, *given, text)->default_str(defaults);
    apply_.push_back([given, field](Settings& settings) {
      if (given->has_value()) field(settings) = **given;
    });
  }

  Settings settings(const std::string& data) const {
    Settings settings = data.empty() ? recipe_for_drawn() : recipe_for_files();
    settings.data = data;
    for (const auto& apply : apply_) apply(settings);
    return settings;
  }

 private:
  CLI::App& app_;
  std::vector<std::function<void(Settings&)>> apply_;
};

struct TrainOptions {
  explicit TrainOptions(CLI::App& app) : recipe(app) {}

  RecipeOptions recipe;
  DataOptions data;
  std::string device = "auto";
  std::string norm = "S0";
  std::string precision = "f32";
  bool augment = false, no_augment = false;  // whether the flags were given
  bool recompute = false;
  bool profile = false;
  std::string out = "runs/bbox";
};

void add_network(RecipeOptions& recipe) {
  recipe.add("--size", "Side in pixels to which pictures are squeezed",
             [](Settings& s) -> int& { return s.model.size; });
  recipe.add("--width", "Channels of the first two layers", [](Settings& s) -> int& { return s.model.width; });
  recipe.add("--groups", "Groups of channels, for S0 and group", [](Settings& s) -> int& { return s.model.groups; });
}

void add_recipe(RecipeOptions& recipe) {
  recipe.add("--epochs", "Passes over the training pictures", [](Settings& s) -> int& { return s.epochs; });
  recipe.add("--batch", "Pictures in a step", [](Settings& s) -> int& { return s.batch; });
  recipe.add("--lr", "Highest learning rate of the one-cycle schedule", [](Settings& s) -> double& { return s.lr; });
  recipe.add("--weight-decay", "Weight decay of AdamW", [](Settings& s) -> double& { return s.weight_decay; });
  recipe.add("--beta", "Error at which smooth L1 turns from quadratic to linear",
             [](Settings& s) -> double& { return s.beta; });
  recipe.add("--seed", "Determines all that is random: the same seed gives the same weights",
             [](Settings& s) -> std::uint64_t& { return s.seed; });
  recipe.add("--workers", "Threads that prepare pictures ahead", [](Settings& s) -> int& { return s.workers; });
}

void run(const TrainOptions& options) {
  Settings settings = options.recipe.settings(options.data.folder);
  settings.class_name = options.data.class_name;
  settings.model.norm = parse_norm(options.norm);
  settings.augment = settings.augment && !options.no_augment;
  settings.device = bevel::parse_device(options.device);
  settings.precision = parse_precision(options.precision);
  settings.model.recompute = options.recompute;
  settings.profile = options.profile;
  settings.out = options.out;
  train(settings, std::cout, is_terminal());
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("train", "Train a network on annotated pictures, or on drawn ones");
  auto options = std::make_shared<TrainOptions>(*sub);
  options->data.add_to(*sub);
  options->recipe.add("--pictures", "Pictures to draw for an epoch, without --data",
                      [](Settings& s) -> int& { return s.drawn_pictures; });
  options->recipe.add("--held-out", "Pictures to draw to judge by, without --data",
                      [](Settings& s) -> int& { return s.drawn_held_out; });
  add_network(options->recipe);
  sub->add_option("--norm", options->norm,
                  "EvoNorm of groups of channels (S0) or with statistics of the batch (B0), batch (with relu) or group "
                  "(with silu)")
      ->check(CLI::IsMember({"S0", "B0", "batch", "group"}))
      ->capture_default_str();
  add_recipe(options->recipe);
  const std::string what = "Change pictures from files at random: flip, scale, shift, brightness";
  CLI::Option* on = sub->add_flag("--augment", options->augment, what)->default_str("on");
  sub->add_flag("--no-augment", options->no_augment, "Take them as they are")->excludes(on);
  add_device(*sub, options->device);
  sub->add_option("--precision", options->precision,
                  "What convolutions compute in: f32, tf32 (CUDA), bf16 or f16; weights and losses stay f32")
      ->check(CLI::IsMember({"f32", "tf32", "bf16", "f16"}))
      ->capture_default_str();
  sub->add_flag("--recompute", options->recompute,
                "Compute norms again in backward instead of keeping them: half the memory, the same result, slower");
  sub->add_flag("--profile", options->profile, "Write profile.txt: time by operator; the training is slower");
  sub->add_option("--out", options->out, "Folder for weights, log and a sheet of predictions")->capture_default_str();
  sub->callback([options] { run(*options); });
}

}  // namespace bbox
