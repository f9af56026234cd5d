#include "settings.h"

#include <bevel/core/error.h>

#include <cmath>

namespace bbox {
namespace {

void at_least(const char* name, double value, double least) {
  bevel::require(value >= least, name, " must be at least ", least, ", not ", value);
}

void not_negative(const char* name, double value) {
  bevel::require(std::isfinite(value) && value >= 0, name, " must be a number of at least 0, not ", value);
}

}  // namespace

Settings recipe_for_files() {
  return {};
}

Settings recipe_for_drawn() {
  Settings settings;
  settings.model = {.size = 64, .width = 8, .groups = 4};
  settings.epochs = 16;
  settings.weight_decay = 0.01;
  settings.lr = 4e-3;
  settings.augment = false;
  return settings;
}

Precision parse_precision(const std::string& text) {
  if (text == "f32") return Precision::f32;
  if (text == "tf32") return Precision::tf32;
  if (text == "bf16") return Precision::bf16;
  if (text == "f16") return Precision::f16;
  bevel::fail("unknown precision \"", text, "\"; there are f32, tf32, bf16 and f16");
}

void check(const Settings& settings) {
  check(settings.model);
  bevel::require(settings.model.size <= 1024, "--size must be at most 1024, not ", settings.model.size);
  at_least("--epochs", settings.epochs, 1);
  at_least("--batch", settings.batch, 1);
  at_least("--workers", settings.workers, 0);
  not_negative("--lr", settings.lr);
  not_negative("--weight-decay", settings.weight_decay);
  not_negative("--beta", settings.beta);
  if (settings.data.empty()) {
    at_least("--pictures", settings.drawn_pictures, 1);
    at_least("--held-out", settings.drawn_held_out, 1);
  }
}

}  // namespace bbox
