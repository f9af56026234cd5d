#include "predict.h"

#include <bevel/core/error.h>

#include <algorithm>
#include <cstdio>
#include <ostream>
#include <set>
#include <string>

#include "drawn.h"
#include "evaluate.h"
#include "files.h"
#include "image_io.h"

namespace bbox {
namespace {

namespace fs = std::filesystem;

constexpr Colour red{230, 40, 40};
constexpr Colour green{40, 200, 60};
constexpr int sheet_side = 240;  // longer side of a picture in a sheet
constexpr int sheet_columns = 5;

bool is_picture_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

// Folders replaced by the pictures in them, by name.
std::vector<fs::path> expand(const std::vector<fs::path>& inputs) {
  std::vector<fs::path> files;
  for (const fs::path& input : inputs) {
    if (!fs::is_directory(input)) {
      files.push_back(input);
      continue;
    }
    std::vector<fs::path> inside;
    for (const fs::directory_entry& entry : fs::directory_iterator(input)) {
      if (entry.is_regular_file() && is_picture_name(entry.path())) inside.push_back(entry.path());
    }
    bevel::require(!inside.empty(), input.string(), ": no .jpg, .jpeg or .png picture in this folder");
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  bevel::require(!files.empty(), "predict: no picture given");
  return files;
}

Image thumbnail(const Image& image) {
  const int longer = std::max(image.width, image.height);
  const auto side = [&](int length) { return std::max(1, length * sheet_side / longer); };
  return resize(image, side(image.width), side(image.height));
}

// Writes pictures one by one and keeps their thumbnails for the sheet.
class Writer {
 public:
  Writer(const fs::path& out, const fs::path& sheet, std::ostream& report) : out_(out), sheet_(sheet), report_(report) {
    make_folder(out);
  }

  void add(const std::string& stem, Image image, const Box& predicted, const Box* truth) {
    const int thickness = std::max(1, std::max(image.width, image.height) / 160);
    if (truth != nullptr) draw_box(image, *truth, green, thickness);
    draw_box(image, predicted, red, thickness);
    const fs::path path = out_ / (unused(stem) + "_box.png");
    write_png(path, image);
    char text[120];
    std::snprintf(text, sizeof text, ": x %.1f to %.1f, y %.1f to %.1f of %d x %d pixels -> ", predicted.x1,
                  predicted.x2, predicted.y1, predicted.y2, image.width, image.height);
    report_ << stem << text << path.string() << '\n';
    if (!sheet_.empty()) thumbnails_.push_back(thumbnail(image));
  }

  void finish() {
    if (sheet_.empty()) return;
    write_png(sheet_, montage(thumbnails_, sheet_columns));
    report_ << "sheet of all: " << sheet_.string() << '\n';
  }

 private:
  // Pictures of the same name from several folders get numbers.
  std::string unused(const std::string& stem) {
    std::string name = stem;
    for (int number = 2; !taken_.insert(name).second; ++number) name = stem + "-" + std::to_string(number);
    return name;
  }

  fs::path out_, sheet_;
  std::ostream& report_;
  std::set<std::string> taken_;
  std::vector<Image> thumbnails_;
};

}  // namespace

Box predict_box(Regressor& model, const Image& image) {
  const int side = model.options().size;
  PictureSet one{{resize(image, side, side)}, {{}}, {{}}};
  const float width = static_cast<float>(image.width), height = static_cast<float>(image.height);
  const Box box = scaled(to_corners(predict_boxes(model, one).front()), width, height);
  return intersect(box, {0, 0, width, height});
}

void predict_files(Regressor& model, const std::vector<fs::path>& inputs, const fs::path& out, const fs::path& sheet,
                   std::ostream& report) {
  const std::vector<fs::path> files = expand(inputs);
  Writer writer(out, sheet, report);
  for (const fs::path& file : files) {
    Image image = load_image(file);
    const Box box = predict_box(model, image);
    writer.add(file.stem().string(), std::move(image), box, nullptr);
  }
  writer.finish();
}

void predict_drawn(Regressor& model, std::uint64_t seed, int count, const fs::path& out, const fs::path& sheet,
                   std::ostream& report) {
  bevel::require(count >= 1, "predict: at least 1 picture is to be drawn, not ", count);
  Writer writer(out, sheet, report);
  const int size = model.options().size;
  for (int i = 0; i < count; ++i) {
    const Drawn drawn = draw_picture(seed, static_cast<std::uint64_t>(i), size);
    const float scale = static_cast<float>(size);
    const Box truth = scaled(drawn.box, scale, scale);
    writer.add("drawn-" + std::to_string(i), drawn.image, predict_box(model, drawn.image), &truth);
  }
  writer.finish();
}

}  // namespace bbox
