#include "voc_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

#include <pugixml.hpp>

#include <bevel/core/error.h>

#include "files.h"

namespace bbox {
namespace {

// The text of a file with the means to say where in it something is.
struct Source {
  std::string name;
  std::vector<std::uint8_t> bytes;

  // "file.xml:12", counting lines from 1.
  std::string place(std::ptrdiff_t offset) const {
    const auto end = bytes.begin() + std::clamp<std::ptrdiff_t>(offset, 0, std::ssize(bytes));
    return name + ":" + std::to_string(1 + std::count(bytes.begin(), end, '\n'));
  }
  std::string place(pugi::xml_node node) const { return place(node.offset_debug()); }
};

std::string_view trimmed(std::string_view text) {
  const char* blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

double coordinate(const Source& source, pugi::xml_node box, const char* key) {
  const pugi::xml_node node = box.child(key);
  bevel::require(!node.empty(), source.place(box), ": <bndbox> has no <", key, ">");
  const std::string_view text = trimmed(node.child_value());
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  bevel::require(whole && std::isfinite(value), source.place(node), ": <", key, "> is not a number: \"", text, "\"");
  return value;
}

VocObject read_object(const Source& source, pugi::xml_node node) {
  VocObject object;
  object.name = trimmed(node.child("name").child_value());
  bevel::require(!object.name.empty(), source.place(node), ": <object> has no <name>");
  const pugi::xml_node box = node.child("bndbox");
  bevel::require(!box.empty(), source.place(node), ": <object> \"", object.name, "\" has no <bndbox>");
  object.xmin = coordinate(source, box, "xmin");
  object.ymin = coordinate(source, box, "ymin");
  object.xmax = coordinate(source, box, "xmax");
  object.ymax = coordinate(source, box, "ymax");
  return object;
}

}  // namespace

VocAnnotation read_voc_file(const std::filesystem::path& path) {
  const Source source{path.string(), read_bytes(path)};
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_buffer(source.bytes.data(), source.bytes.size());
  bevel::require(result, source.place(result.offset), ": broken XML: ", result.description());
  const pugi::xml_node root = document.child("annotation");
  bevel::require(!root.empty(), source.place(document.document_element()), ": not a VOC annotation: its root is <",
                 document.document_element().name(), ">, not <annotation>");
  VocAnnotation annotation;
  annotation.filename = trimmed(root.child("filename").child_value());
  annotation.width = root.child("size").child("width").text().as_int();
  annotation.height = root.child("size").child("height").text().as_int();
  for (const pugi::xml_node node : root.children("object")) annotation.objects.push_back(read_object(source, node));
  return annotation;
}

}  // namespace bbox
