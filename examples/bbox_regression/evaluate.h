// Using a network: boxes for pictures, and how good they are.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model.h"
#include "pictures.h"

namespace bbox {

// The network's box for each picture, in shares of the sides. Leaves the network in the mode in which it was.
// Pictures are of the network's size; they go through it `batch` at a time, on the device where the network is.
std::vector<CentreBox> predict_boxes(Regressor& model, const PictureSet& pictures, int batch = 64);

Metrics score(std::span<const CentreBox> predicted, std::span<const CentreBox> truths);

// A table of named figures, such as "the network" and "always the mean box".
void print_table(std::ostream& out, const std::vector<std::pair<std::string, Metrics>>& rows);

// A sheet of the first `count` pictures with the predicted box in red and the true one in green; each at least 160
// pixels wide.
Image prediction_sheet(const PictureSet& pictures, std::span<const CentreBox> predicted, int count = 24,
                       int columns = 6);

}  // namespace bbox
