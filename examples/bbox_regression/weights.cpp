#include "weights.h"

#include <bevel/nn/checkpoint.h>

#include <charconv>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace bbox {
namespace {

constexpr const char* model_name = "bevel bbox regressor";
constexpr const char* version = "1";

// The numbers and words noted in a file.
class Notes {
 public:
  explicit Notes(const std::filesystem::path& path) : name_(path.string()), file_(bevel::nn::load_checkpoint(path)) {
    const auto model = file_.metadata.find("model");
    bevel::require(model != file_.metadata.end() && model->second == model_name, name_,
                   ": weights of another model, not of the box regressor",
                   model == file_.metadata.end() ? "" : ": \"" + model->second + "\"");
    bevel::require(text("version") == version, name_, ": written by another version of the program: format ",
                   text("version"), ", this one reads ", version);
  }

  const bevel::NamedTensors& tensors() const { return file_.tensors; }
  const std::string& name() const { return name_; }

  const std::string& text(const std::string& key) const {
    const auto found = file_.metadata.find(key);
    bevel::require(found != file_.metadata.end(), name_, ": does not say its ", key);
    return found->second;
  }

  template <class T>
  T number(const std::string& key) const {
    const std::string& digits = text(key);
    T value{};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    bevel::require(error == std::errc() && end == digits.data() + digits.size(), name_, ": its ", key,
                   " is not a number: \"", digits, "\"");
    return value;
  }

 private:
  std::string name_;
  bevel::nn::Checkpoint file_;
};

ModelOptions read_options(const Notes& notes) {
  const ModelOptions options{.size = notes.number<int>("size"),
                             .width = notes.number<int>("width"),
                             .norm = parse_norm(notes.text("norm")),
                             .groups = notes.number<int>("groups")};
  check(options);
  bevel::require(options.size <= 1024 && options.width <= 1024, "absurd size or width: ", options.size, ", ",
                 options.width);
  return options;
}

std::string precise(double value) {
  std::ostringstream text;
  text << std::setprecision(17) << value;
  return text.str();
}

}  // namespace

void save_weights(const std::filesystem::path& path, const Regressor& model, const Card& card) {
  const ModelOptions& options = model.options();
  bevel::nn::save_weights(path, model,
                          {{"model", model_name},
                           {"version", version},
                           {"size", std::to_string(options.size)},
                           {"width", std::to_string(options.width)},
                           {"norm", name(options.norm)},
                           {"groups", std::to_string(options.groups)},
                           {"class", card.class_name},
                           {"seed", std::to_string(card.seed)},
                           {"epoch", std::to_string(card.epoch)},
                           {"mean_iou", precise(card.mean_iou)}});
}

Trained load_weights(const std::filesystem::path& path) {
  bevel::require(std::filesystem::exists(path), path.string(), ": no such file; `bbox train` writes one");
  const Notes notes(path);
  const Card card{notes.text("class"), notes.number<std::uint64_t>("seed"), notes.number<int>("epoch"),
                  notes.number<double>("mean_iou")};
  Trained trained = [&] {
    try {
      Trained made{Regressor(read_options(notes)), card};
      made.model.load_state(notes.tensors());
      return made;
    } catch (const bevel::Error& error) {
      const std::string what = error.what();
      bevel::fail(what.starts_with(notes.name()) ? what : notes.name() + ": " + what);
    }
  }();
  trained.model.eval();
  return trained;
}

std::string describe(const Trained& trained) {
  const ModelOptions& options = trained.model.options();
  std::ostringstream text;
  text << "finds " << trained.card.class_name << ", " << options.size << " x " << options.size << " pixels, width "
       << options.width << ", norm " << options.norm << ", epoch " << trained.card.epoch << ", mean IoU "
       << std::setprecision(3) << trained.card.mean_iou << " on held-out pictures";
  return text.str();
}

}  // namespace bbox
