#include "bbox_regression/weights.h"

#include <bevel/core/random.h>
#include <bevel/nn/checkpoint.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "examples/fixtures.h"

namespace bbox {
namespace {

using fixtures::message_of;
using fixtures::TempDir;
using testing::AllOf;
using testing::HasSubstr;

const ModelOptions small{.size = 20, .width = 4, .norm = Norm::B0, .groups = 2};
const Card card{"cat", ~std::uint64_t{0}, 17, 0.8125};

bevel::nn::Metadata metadata_of(const std::filesystem::path& path) {
  return bevel::nn::load_checkpoint(path).metadata;
}

TEST(Weights, ComeBackWithOptionsAndCard) {
  const TempDir dir;
  bevel::manual_seed(3);
  const Regressor model(small);
  save_weights(dir / "w.safetensors", model, card);
  const Trained back = load_weights(dir / "w.safetensors");
  EXPECT_EQ(back.model.options(), small);
  EXPECT_EQ(checksum(back.model), checksum(model));
  EXPECT_FALSE(back.model.is_training());
  EXPECT_EQ(back.card.class_name, "cat");
  EXPECT_EQ(back.card.seed, ~std::uint64_t{0});
  EXPECT_EQ(back.card.epoch, 17);
  EXPECT_EQ(back.card.mean_iou, 0.8125);
  EXPECT_THAT(describe(back), AllOf(HasSubstr("finds cat, 20 x 20 pixels"), HasSubstr("norm B0, epoch 17")));
}

TEST(Weights, OfSomethingElseAreRefused) {
  const TempDir dir;
  const auto path = dir / "w.safetensors";
  bevel::manual_seed(3);
  const Regressor model(small);
  save_weights(path, model, card);
  bevel::nn::Metadata metadata = metadata_of(path);

  const auto message = [&](const bevel::nn::Metadata& changed, const bevel::nn::Module& module) {
    bevel::nn::save_weights(path, module, changed);
    return message_of([&] { load_weights(path); });
  };
  const auto with = [&](const std::string& key, const std::string& value) {
    bevel::nn::Metadata changed = metadata;
    changed[key] = value;
    return changed;
  };
  EXPECT_THAT(message({}, model), HasSubstr("w.safetensors: weights of another model"));
  EXPECT_THAT(message(with("model", "a poet"), model),
              HasSubstr("another model, not of the box regressor: \"a poet\""));
  EXPECT_THAT(message(with("version", "9"), model), HasSubstr("another version of the program: format 9"));
  EXPECT_THAT(message(with("size", "large"), model), HasSubstr("its size is not a number: \"large\""));
  EXPECT_THAT(message(with("size", "1000000"), model), HasSubstr("absurd"));
  EXPECT_THAT(message(with("norm", "Z9"), model), HasSubstr("w.safetensors: unknown norm \"Z9\""));
  // The tensors are not those that the options call for.
  EXPECT_THAT(message(with("width", "6"), model), AllOf(HasSubstr("w.safetensors: "), HasSubstr("layers.")));
  EXPECT_THAT(message(with("norm", "S0"), model), HasSubstr("w.safetensors: "));
  bevel::nn::Metadata incomplete = metadata;
  incomplete.erase("groups");
  EXPECT_THAT(message(incomplete, model), HasSubstr("does not say its groups"));
}

TEST(Weights, MissingAndDamagedFiles) {
  const TempDir dir;
  const auto path = dir / "w.safetensors";
  EXPECT_THAT(message_of([&] { load_weights(path); }), HasSubstr("w.safetensors: no such file; `bbox train`"));
  bevel::manual_seed(3);
  save_weights(path, Regressor(small), card);
  fixtures::cut(path, std::filesystem::file_size(path) - 100);
  EXPECT_THAT(message_of([&] { load_weights(path); }), HasSubstr("w.safetensors"));
  fixtures::write_text(path, "weights? none here.");
  EXPECT_THAT(message_of([&] { load_weights(path); }), HasSubstr("w.safetensors"));
}

}  // namespace
}  // namespace bbox
