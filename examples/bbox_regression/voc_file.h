// One Pascal VOC annotation file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "box.h"

namespace bbox {

struct VocObject {
  std::string name;
  double xmin = 0, ymin = 0, xmax = 0, ymax = 0;  // as written: 1-based, inclusive

  bool has_area() const { return xmax > xmin && ymax > ymin; }
  // 0-based and half-open.
  Box box() const {
    return {static_cast<float>(xmin - 1), static_cast<float>(ymin - 1), static_cast<float>(xmax),
            static_cast<float>(ymax)};
  }
};

struct VocAnnotation {
  std::string filename;  // empty where there is none
  int width = 0;         // 0 where the file does not say
  int height = 0;
  std::vector<VocObject> objects;
};

// Errors, each with file and line: unreadable file, broken XML, another root than <annotation>, an <object> without
// <name> or <bndbox>, a coordinate that is missing or not a finite number.
VocAnnotation read_voc_file(const std::filesystem::path& path);

}  // namespace bbox
