#include "evaluate.h"

#include <bevel/core/autograd.h>

#include <algorithm>
#include <cstdio>
#include <ostream>

#include "augment.h"

namespace bbox {
namespace {

constexpr Colour red{230, 40, 40};
constexpr Colour green{40, 200, 60};

// Evaluation mode for as long as this lives.
class Evaluating {
 public:
  explicit Evaluating(Regressor& model) : model_(model), training_(model.is_training()) { model.eval(); }
  ~Evaluating() { model_.train(training_); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  Regressor& model_;
  bool training_;
  bevel::NoGrad no_grad_;
};

}  // namespace

std::vector<CentreBox> predict_boxes(Regressor& model, const PictureSet& pictures, int batch) {
  const Evaluating evaluating(model);
  const bevel::Device device = model.parameters().front().device();
  const std::int64_t side = model.options().size;
  std::vector<CentreBox> boxes;
  for (std::size_t first = 0; first < pictures.size(); first += static_cast<std::size_t>(batch)) {
    const std::size_t count = std::min(static_cast<std::size_t>(batch), pictures.size() - first);
    const auto input = bevel::Tensor::empty({static_cast<std::int64_t>(count), side, side, 3}, {.dtype = bevel::u8});
    std::uint8_t* bytes = input.data<std::uint8_t>();
    for (std::size_t i = 0; i < count; ++i) {
      const Image& image = pictures.images[first + i];
      bevel::require(image.width == side && image.height == side, "predict_boxes: a picture of ", image.width, " x ",
                     image.height, " pixels for a network of ", side);
      bytes = std::ranges::copy(image.rgb, bytes).out;
    }
    const std::vector<float> output = model(bevel::image_to_float(input.to(device), network_pixels)).to_vector<float>();
    for (std::size_t i = 0; i < count; ++i) {
      const float* box = &output[i * 4];
      boxes.push_back({box[0], box[1], box[2], box[3]});
    }
  }
  return boxes;
}

Metrics score(std::span<const CentreBox> predicted, std::span<const CentreBox> truths) {
  bevel::require(predicted.size() == truths.size(), "score: ", predicted.size(), " boxes for ", truths.size(),
                 " pictures");
  Score sum;
  for (std::size_t i = 0; i < truths.size(); ++i) sum.add(predicted[i], truths[i]);
  return sum.metrics();
}

void print_table(std::ostream& out, const std::vector<std::pair<std::string, Metrics>>& rows) {
  std::size_t width = 0;
  for (const auto& [name, metrics] : rows) width = std::max(width, name.size());
  const std::size_t count = rows.empty() ? 0 : rows.front().second.count;
  const std::string title = std::to_string(count) + " held-out pictures";
  width = std::max(width, title.size());
  char line[256];
  std::snprintf(line, sizeof line, "%-*s   mean IoU   IoU above 0.5\n", static_cast<int>(width), title.c_str());
  out << line << std::string(width + 27, '-') << '\n';
  for (const auto& [name, metrics] : rows) {
    std::snprintf(line, sizeof line, "%-*s   %8.3f   %11.1f %%\n", static_cast<int>(width), name.c_str(),
                  metrics.mean_iou, metrics.above_half * 100);
    out << line;
  }
}

Image prediction_sheet(const PictureSet& pictures, std::span<const CentreBox> predicted, int count, int columns) {
  std::vector<Image> cells;
  const std::size_t end = std::min(pictures.size(), static_cast<std::size_t>(std::max(count, 1)));
  for (std::size_t i = 0; i < end; ++i) {
    const int side = std::max(pictures.images[i].width, 160);
    const float scale = static_cast<float>(side);
    Image cell = resize(pictures.images[i], side, side);
    draw_box(cell, scaled(to_corners(pictures.boxes[i]), scale, scale), green, 2);
    draw_box(cell, scaled(to_corners(predicted[i]), scale, scale), red, 2);
    cells.push_back(std::move(cell));
  }
  return montage(cells, columns);
}

}  // namespace bbox
