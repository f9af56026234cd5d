// Reads folders of pictures annotated in the Pascal VOC form: one XML file a picture.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "box.h"

namespace bbox {

// One picture with the one box of the class in it.
struct Sample {
  std::filesystem::path annotation;
  std::filesystem::path picture;
  int width = 0;  // of the stored raster, as the picture file says
  int height = 0;
  Box box;  // pixels, corner form, 0-based, half-open, inside the picture
};

// An annotation that is not used, and why.
struct LeftOut {
  std::filesystem::path annotation;
  std::string reason;
};

struct VocFolder {
  std::string class_name;
  std::vector<Sample> samples;    // sorted by the name of the annotation file
  std::vector<LeftOut> left_out;  // sorted likewise
  std::size_t clipped = 0;        // boxes that reached beyond their picture and were cut

  // Every fifth sample, beginning with the first, is held out of training.
  static bool held_out(std::size_t index) { return index % 5 == 0; }

  // What was read and what was left out, in lines for the screen.
  std::string report() const;
};

// Reads the pictures that have exactly one box of `class_name`; an empty name stands for the only class there is.
//
// Folders: annotations in `annotations/`, `Annotations/` or the folder itself, pictures in `images/`, `JPEGImages/`
// or beside the annotations. A picture is found by <filename> (its last part), else by the annotation's own name
// with .jpg, .jpeg or .png.
//
// Boxes: VOC counts pixels from 1 and includes the last, so (xmin, ymin, xmax, ymax) becomes
// (xmin - 1, ymin - 1, xmax, ymax); coordinates may have fractions. A box whose xmax is not above xmin, or ymax not
// above ymin, is taken as a slip of the annotator without area, not as a line one pixel wide.
//
// Left out, with the reason: no box of the class, several, one without area, one wholly outside its picture, a
// missing picture, a picture of another size than the annotation says.
// Errors: a missing folder, no annotation, a broken XML or a box without numbers (file and line), an unreadable
// picture, no box of the class anywhere (lists the classes), several classes and no name given, nothing left to use.
VocFolder read_voc(const std::filesystem::path& folder, const std::string& class_name = "");

}  // namespace bbox
