// What a training is told, with the two recipes that stand for what it is not told.
#pragma once

#include <bevel/core/device.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "model.h"

namespace bbox {

// What convolutions and matrix products compute in: f32 as it is or, on CUDA, rounded to TF32; or a half type, with f32
// weights, statistics and losses.
enum class Precision : std::uint8_t { f32, tf32, bf16, f16 };

// "f32", "tf32", "bf16" or "f16". Error for anything else.
Precision parse_precision(const std::string& text);

struct Settings {
  std::filesystem::path data;  // a VOC folder; empty: drawn pictures
  std::string class_name;      // empty: the only class there is
  std::filesystem::path out = "runs/bbox";

  ModelOptions model;
  int epochs = 300;
  int batch = 32;
  double lr = 2e-3;  // the highest of the one-cycle schedule
  double weight_decay = 0.05;
  double beta = 1.0 / 9;  // of smooth L1
  bool augment = true;    // pictures from files; drawn ones are new in every epoch anyway
  std::uint64_t seed = 1;
  bevel::Device device = bevel::cpu;
  Precision precision = Precision::f32;
  int workers = 2;
  bool profile = false;  // time each operator; the step is then not captured

  int drawn_pictures = 2048;  // drawn for each epoch, where there is no data
  int drawn_held_out = 256;
};

// For photographs: 128 pixels, width 32, 300 epochs, augmentation.
Settings recipe_for_files();
// For drawn pictures: small enough for a minute or so on two processor cores.
Settings recipe_for_drawn();

// The series of which held-out drawn pictures are the beginning; training has the series `seed` itself.
constexpr std::uint64_t held_out_series(std::uint64_t seed) {
  return ~seed;
}

// Error unless all numbers make sense: epochs, batch, sizes at least 1, rates finite and not negative, ...
void check(const Settings& settings);

}  // namespace bbox
