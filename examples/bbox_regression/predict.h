// Drawing a network's boxes on pictures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <vector>

#include "box.h"
#include "image.h"
#include "model.h"

namespace bbox {

// The network's box in a picture of any size, in its pixels, cut at its edges.
Box predict_box(Regressor& model, const Image& image);

// For each file, or each JPEG and PNG file of a folder: prints the box and writes `<name>_box.png` into `out`, with
// the box drawn on the picture. With `sheet` not empty, also one picture with all of them, small.
// Errors: no picture, those of load_image and write_png.
void predict_files(Regressor& model, const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& out,
                   const std::filesystem::path& sheet, std::ostream& report);

// The same for `count` drawn pictures, the first of the series `seed`; the true box is drawn in green.
void predict_drawn(Regressor& model, std::uint64_t seed, int count, const std::filesystem::path& out,
                   const std::filesystem::path& sheet, std::ostream& report);

}  // namespace bbox
