#include "bbox_regression/trainer.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bbox_regression/batches.h"
#include "bbox_regression/drawn.h"
#include "bbox_regression/evaluate.h"
#include "bbox_regression/image_io.h"
#include "bbox_regression/weights.h"
#include "examples/fixtures.h"

namespace bbox {
namespace {

using fixtures::message_of;
using fixtures::TempDir;
using testing::AllOf;
using testing::HasSubstr;

Settings tiny(const TempDir& dir) {
  Settings settings = recipe_for_drawn();
  settings.model = {.size = 16, .width = 4, .groups = 2};
  settings.epochs = 3;
  settings.batch = 16;
  settings.drawn_pictures = 100;  // the last batch of an epoch is smaller
  settings.drawn_held_out = 30;
  settings.out = dir / "out";
  return settings;
}

// A folder of `count` drawn pictures with Pascal VOC annotations.
void write_voc(const std::filesystem::path& folder, int count) {
  for (int i = 0; i < count; ++i) {
    const int size = 32;
    const Drawn drawn = draw_picture(5, static_cast<std::uint64_t>(i), size);
    const std::string stem = bevel::message("p", 100 + i);
    const Box box = scaled(drawn.box, size, size);
    std::ostringstream xml;
    xml << "<annotation><filename>" << stem << ".png</filename><object><name>eye</name><bndbox><xmin>" << box.x1 + 1
        << "</xmin><ymin>" << box.y1 + 1 << "</ymin><xmax>" << box.x2 << "</xmax><ymax>" << box.y2
        << "</ymax></bndbox></object></annotation>";
    fixtures::write_text(folder / "annotations" / (stem + ".xml"), xml.str());
    std::filesystem::create_directories(folder / "images");
    write_png(folder / "images" / (stem + ".png"), drawn.image);
  }
}

std::string text_of(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Batches, DatasetsHandOutPicturesAndBoxes) {
  const PictureSet set = draw_pictures(1, 0, 3, 16);
  const PictureDataset plain(set, false, 1), changing(set, true, 1);
  const DrawnDataset drawn(1, 3, 16);
  const auto sample = [](const auto& dataset, std::int64_t index, std::int64_t epoch) {
    std::vector<bevel::Tensor> slots;
    for (const bevel::TensorSpec& spec : dataset.specs())
      slots.push_back(bevel::Tensor::empty(spec.shape, {.dtype = spec.dtype}));
    dataset.fill(index, epoch, slots);
    std::vector<float> numbers;
    for (const std::uint8_t byte : slots[0].template to_vector<std::uint8_t>()) numbers.push_back(byte);
    for (const float number : slots[1].template to_vector<float>()) numbers.push_back(number);
    for (const float side : slots[2].template to_vector<float>()) numbers.push_back(side);
    return numbers;
  };
  EXPECT_EQ(sample(plain, 2, 0), sample(drawn, 2, 0));
  EXPECT_EQ(sample(plain, 2, 0), sample(plain, 2, 1));
  EXPECT_NE(sample(drawn, 2, 0), sample(drawn, 2, 1));
  EXPECT_NE(sample(changing, 2, 0), sample(changing, 2, 1));
  EXPECT_EQ(sample(changing, 2, 1), sample(changing, 2, 1));
  EXPECT_EQ(sample(plain, 1, 0).back(), set.boxes[1].h);
}

TEST(Trainer, TwoRunsGiveTheSameBitsWithAnyNumberOfWorkers) {
  const TempDir dir;
  std::ostringstream out;
  Settings settings = tiny(dir);
  const std::uint64_t first = train(settings, out, false).checksum;
  settings.workers = 0;
  EXPECT_EQ(train(settings, out, false).checksum, first);
  settings.workers = 5;
  EXPECT_EQ(train(settings, out, false).checksum, first);
  settings.seed = 2;
  EXPECT_NE(train(settings, out, false).checksum, first);
}

TEST(Trainer, AProfileChangesNoBit) {
  const TempDir dir;
  std::ostringstream out;
  Settings settings = tiny(dir);
  const std::uint64_t checksum = train(settings, out, false).checksum;
  EXPECT_FALSE(std::filesystem::exists(settings.out / "profile.txt"));
  settings.profile = true;
  EXPECT_EQ(train(settings, out, false).checksum, checksum);
  EXPECT_THAT(text_of(settings.out / "profile.txt"),
              AllOf(HasSubstr("conv2d"), HasSubstr("evonorm"), HasSubstr("smooth_l1"), HasSubstr("backward")));
}

TEST(Trainer, WritesWeightsLogAndSheet) {
  const TempDir dir;
  std::ostringstream out;
  const Settings settings = tiny(dir);
  const TrainingResult result = train(settings, out, false);
  Trained last = load_weights(settings.out / "last.safetensors");
  EXPECT_EQ(checksum(last.model), result.checksum);
  EXPECT_EQ(last.card.epoch, 3);
  const Trained best = load_weights(settings.out / "best.safetensors");
  EXPECT_EQ(best.card.epoch, result.best_epoch);
  EXPECT_EQ(best.card.mean_iou, result.best.mean_iou);
  EXPECT_GE(result.best.mean_iou, result.last.mean_iou);
  const std::string log = text_of(settings.out / "log.csv");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 4);
  EXPECT_THAT(log, HasSubstr("epoch,loss,"));
  EXPECT_GT(load_image(settings.out / "held_out.png").width, 6 * 160);
  EXPECT_THAT(out.str(), AllOf(HasSubstr("30 held-out pictures"), HasSubstr("always the mean training box"),
                               HasSubstr("went by waiting for pictures"), HasSubstr("checksum of the last weights: ")));
  EXPECT_GE(result.waiting, 0);
  EXPECT_LE(result.waiting, 1);
  // The weights in the file give the figures of the report.
  const PictureSet held_out = draw_pictures(held_out_series(settings.seed), 0, 30, 16);
  EXPECT_EQ(score(predict_boxes(last.model, held_out), held_out.boxes).mean_iou, result.last.mean_iou);
}

TEST(Trainer, LearnsDrawnPictures) {
  const TempDir dir;
  std::ostringstream out;
  Settings settings = recipe_for_drawn();
  settings.model = {.size = 32, .width = 8, .groups = 4};
  settings.epochs = 12;
  settings.drawn_pictures = 512;
  settings.drawn_held_out = 100;
  settings.out = dir.path();
  const TrainingResult result = train(settings, out, false);
  EXPECT_LT(result.last_loss, result.first_loss / 4);
  EXPECT_GT(result.last.mean_iou, 0.5);
  EXPECT_GT(result.last.mean_iou, result.mean_box.mean_iou + 0.2);
}

TEST(Trainer, LearnsFromFilesWithEveryNorm) {
  const TempDir dir;
  write_voc(dir / "data", 40);
  for (const Norm norm : {Norm::S0, Norm::B0, Norm::batch, Norm::group}) {
    std::ostringstream out;
    Settings settings;
    settings.data = dir / "data";
    settings.model = {.size = 16, .width = 4, .norm = norm, .groups = 2};
    settings.epochs = 25;
    settings.batch = 16;
    settings.out = dir / "out";
    const TrainingResult result = train(settings, out, false);
    EXPECT_LT(result.last_loss, result.first_loss / 2);
    EXPECT_EQ(result.last.count, 8u);
    EXPECT_EQ(load_weights(settings.out / "best.safetensors").card.class_name, "eye");
    EXPECT_THAT(out.str(), HasSubstr("32 to train on, 8 held out"));
  }
}

TEST(TrainerCuda, TwoRunsGiveTheSameBitsAndTheCpuMuchTheSame) {
  if (bevel::cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const TempDir dir;
  for (const Norm norm : {Norm::S0, Norm::B0, Norm::batch, Norm::group}) {
    std::ostringstream out;
    Settings settings = tiny(dir);
    settings.model.norm = norm;
    const double on_cpu = train(settings, out, false).first_loss;
    settings.device = bevel::cuda();
    const TrainingResult first = train(settings, out, false);
    EXPECT_EQ(train(settings, out, false).checksum, first.checksum);
    EXPECT_NEAR(first.first_loss, on_cpu, 0.02 * on_cpu);
    Trained last = load_weights(settings.out / "last.safetensors");
    EXPECT_EQ(checksum(last.model), first.checksum);
  }
}

TEST(Trainer, NonsenseIsRefusedBeforeAnythingIsWritten) {
  const TempDir dir;
  std::ostringstream out;
  const auto message = [&](auto change) {
    Settings settings = tiny(dir);
    change(settings);
    return message_of([&] { train(settings, out, false); });
  };
  EXPECT_THAT(message([](Settings& s) { s.epochs = 0; }), HasSubstr("--epochs must be at least 1, not 0"));
  EXPECT_THAT(message([](Settings& s) { s.batch = -1; }), HasSubstr("--batch"));
  EXPECT_THAT(message([](Settings& s) { s.model.size = 4000; }), HasSubstr("--size must be at most 1024"));
  EXPECT_THAT(message([](Settings& s) { s.lr = -1; }), HasSubstr("--lr"));
  EXPECT_THAT(message([](Settings& s) { s.beta = NAN; }), HasSubstr("--beta"));
  EXPECT_THAT(message([](Settings& s) { s.drawn_held_out = 0; }), HasSubstr("--held-out"));
  EXPECT_THAT(message([&](Settings& s) { s.data = dir / "none"; }), HasSubstr("no such folder"));
  EXPECT_THAT(message([](Settings& s) { s.model.groups = 3; }), HasSubstr("groups"));
  EXPECT_FALSE(std::filesystem::exists(dir / "out"));
  fixtures::write_text(dir / "file", "");
  EXPECT_THAT(message([&](Settings& s) { s.out = dir / "file/out"; }), HasSubstr("this folder cannot be made"));
}

}  // namespace
}  // namespace bbox
