// A trained network in a file that says what it is, so that it can be used without repeating the options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "model.h"

namespace bbox {

// Stands for the class where pictures are drawn.
inline constexpr const char* drawn_class = "(drawn pictures)";

// What is noted beside the weights.
struct Card {
  std::string class_name;  // what the boxes are of
  std::uint64_t seed = 0;
  int epoch = 0;        // after so many epochs
  double mean_iou = 0;  // on the held-out pictures then
};

struct Trained {
  Regressor model;  // on the CPU, in evaluation mode
  Card card;
};

// Writes parameters, buffers, options and card, whole or not at all. Errors: the file cannot be written.
void save_weights(const std::filesystem::path& path, const Regressor& model, const Card& card);

// Errors: a missing or damaged file, weights of something else than this network, of a later version of it, or with
// other tensors than the options in the file call for.
Trained load_weights(const std::filesystem::path& path);

// A line about the network, for the screen.
std::string describe(const Trained& trained);

}  // namespace bbox
