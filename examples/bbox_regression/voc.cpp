#include "voc.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <bevel/core/error.h>

#include "image_io.h"
#include "voc_file.h"

namespace bbox {
namespace {

namespace fs = std::filesystem;

// Those of `names` that are folders inside `folder`.
std::vector<fs::path> subfolders(const fs::path& folder, std::initializer_list<const char*> names) {
  std::vector<fs::path> found;
  for (const char* name : names) {
    if (fs::is_directory(folder / name)) found.push_back(folder / name);
  }
  return found;
}

std::vector<fs::path> annotation_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".xml") files.push_back(entry.path());
  }
  bevel::require(!files.empty(), folder.string(), ": no .xml annotation in this folder");
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.filename().native() < b.filename().native(); });
  return files;
}

// Empty where there is no such picture.
fs::path find_picture(const std::vector<fs::path>& folders, const fs::path& annotation, const std::string& filename) {
  // Windows programs write whole paths with backslashes.
  const fs::path last = fs::path(filename.substr(filename.find_last_of('\\') + 1)).filename();
  for (const fs::path& folder : folders) {
    if (!last.empty() && fs::is_regular_file(folder / last)) return folder / last;
  }
  for (const fs::path& folder : folders) {
    for (const char* extension : {".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG"}) {
      const fs::path path = folder / (annotation.stem().native() + extension);
      if (fs::is_regular_file(path)) return path;
    }
  }
  return {};
}

struct Annotated {
  fs::path path;
  VocAnnotation annotation;
};

// The class to use: the one asked for, or the only one there is.
std::string choose_class(const fs::path& folder, const std::vector<Annotated>& all, const std::string& wanted) {
  std::map<std::string, int> counts;
  for (const Annotated& one : all) {
    for (const VocObject& object : one.annotation.objects) ++counts[object.name];
  }
  bevel::require(!counts.empty(), folder.string(), ": none of the ", all.size(), " annotations has a box");
  std::ostringstream list;
  for (const auto& [name, count] : counts) list << (list.tellp() > 0 ? ", " : "") << name << " (" << count << ")";
  if (wanted.empty()) {
    bevel::require(counts.size() == 1, folder.string(),
                   ": boxes of several classes, choose one by --class: ", list.str());
    return counts.begin()->first;
  }
  bevel::require(counts.contains(wanted), folder.string(), ": no box of class \"", wanted,
                 "\"; the classes here are: ", list.str());
  return wanted;
}

// Fills `sample` from `one`; what it returns is the reason to leave the picture out, or nothing.
std::string make_sample(const Annotated& one, const std::string& class_name, const std::vector<fs::path>& folders,
                        Sample& sample, bool& clipped) {
  const VocAnnotation& annotation = one.annotation;
  const VocObject* object = nullptr;
  int count = 0;
  for (const VocObject& candidate : annotation.objects) {
    if (candidate.name != class_name) continue;
    if (!candidate.has_area()) return "a box without area";
    object = &candidate;
    ++count;
  }
  if (count == 0) return "no box of the class";
  if (count > 1) return "several boxes of the class";
  sample.annotation = one.path;
  sample.picture = find_picture(folders, one.path, annotation.filename);
  if (sample.picture.empty()) return "picture missing";
  const ImageSize size = load_image_size(sample.picture);
  const bool said = annotation.width > 0 && annotation.height > 0;
  if (said && (annotation.width != size.width || annotation.height != size.height)) {
    return "picture of another size than annotated";
  }
  sample.width = size.width;
  sample.height = size.height;
  const Box whole{0, 0, static_cast<float>(size.width), static_cast<float>(size.height)};
  sample.box = intersect(object->box(), whole);
  if (area(sample.box) <= 0) return "box outside the picture";
  clipped = sample.box != object->box();
  return {};
}

}  // namespace

VocFolder read_voc(const fs::path& folder, const std::string& class_name) {
  bevel::require(fs::is_directory(folder), folder.string(), ": no such folder");
  std::vector<fs::path> annotations = subfolders(folder, {"annotations", "Annotations"});
  if (annotations.empty()) annotations.push_back(folder);
  std::vector<fs::path> pictures = subfolders(folder, {"images", "JPEGImages"});
  pictures.push_back(annotations.front());
  pictures.push_back(folder);

  std::vector<Annotated> all;
  for (const fs::path& path : annotation_files(annotations.front())) all.push_back({path, read_voc_file(path)});

  VocFolder result;
  result.class_name = choose_class(folder, all, class_name);
  for (const Annotated& one : all) {
    Sample sample;
    bool clipped = false;
    const std::string reason = make_sample(one, result.class_name, pictures, sample, clipped);
    if (reason.empty()) {
      result.samples.push_back(sample);
      result.clipped += clipped ? 1 : 0;
    } else {
      result.left_out.push_back({one.path, reason});
    }
  }
  bevel::require(!result.samples.empty(), folder.string(), ": no usable picture. ", result.report());
  return result;
}

std::string VocFolder::report() const {
  std::map<std::string, std::vector<const LeftOut*>> reasons;
  for (const LeftOut& one : left_out) reasons[one.reason].push_back(&one);
  std::ostringstream text;
  text << samples.size() << (samples.size() == 1 ? " picture" : " pictures") << " with exactly one box of class \""
       << class_name << "\", " << left_out.size() << " left out";
  for (const auto& [reason, which] : reasons) {
    text << "\n  " << which.size() << ": " << reason << " (" << which.front()->annotation.filename().string()
         << (which.size() > 1 ? ", ..." : "") << ")";
  }
  if (clipped > 0) text << "\n  " << clipped << (clipped == 1 ? " box" : " boxes") << " cut at the picture's edge";
  return text.str();
}

}  // namespace bbox
