// The header of a safetensors file; see checkpoint.h for the format.
#pragma once

#include <bevel/core/dtype.h>
#include <bevel/core/shape.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bevel::nn::detail {

struct HeaderEntry {
  std::string name;
  Dtype dtype = f32;
  Shape shape{};
  std::uint64_t begin = 0;  // in bytes behind the header
  std::uint64_t end = 0;
};

struct Header {
  std::vector<HeaderEntry> entries{};
  std::map<std::string, std::string> metadata{};
};

// As JSON, without padding.
std::string write_header(const Header& header);

// Error, with the position in the text, if it is not such a header: only what the format has is accepted.
Header read_header(std::string_view text);

}  // namespace bevel::nn::detail
