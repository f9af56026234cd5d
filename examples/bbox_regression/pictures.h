// The pictures to learn from and those to judge by, squeezed to the network's size and kept in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "box.h"
#include "image.h"

namespace bbox {

// Pictures of size x size pixels; boxes in shares of the sides. All three lists are equally long.
struct PictureSet {
  std::vector<Image> images;
  std::vector<CentreBox> boxes;
  std::vector<std::string> names;

  std::size_t size() const { return images.size(); }
};

struct Pictures {
  PictureSet train, held_out;
  std::string class_name;
  std::string report;  // what was read, for the screen
};

// A folder of Pascal VOC annotations (read_voc), every fifth usable picture held out. Pictures are decoded and squeezed
// on all threads. Errors: those of read_voc and load_image; a size below 16 or above 1024.
Pictures load_voc_pictures(const std::filesystem::path& folder, const std::string& class_name, int size);

// `count` drawn pictures of the series `seed`, beginning with number `first`.
PictureSet draw_pictures(std::uint64_t seed, std::uint64_t first, std::size_t count, int size);

}  // namespace bbox
