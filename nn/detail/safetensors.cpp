#include <bevel/nn/detail/safetensors.h>

#include <array>
#include <charconv>
#include <sstream>

namespace bevel::nn::detail {

namespace {

constexpr std::array<const char*, 8> dtype_names{"F32", "F64", "BF16", "F16", "I32", "I64", "U8", "BOOL"};

void write_string(std::ostream& out, std::string_view text) {
  constexpr const char* digits = "0123456789abcdef";
  out << '"';
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out << '\\' << c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out << "\\u00" << digits[c >> 4] << digits[c & 15];
    else
      out << c;
  }
  out << '"';
}

// Reads just the JSON that a header may hold.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Header header() {
    Header result;
    object([&](const std::string& name) {
      if (name == "__metadata__")
        object([&](const std::string& key) { result.metadata[key] = string(); });
      else
        result.entries.push_back(entry(name));
    });
    skip_space();
    if (position_ != text_.size()) error("nothing more");
    return result;
  }

 private:
  [[noreturn]] void error(const char* expected) const {
    fail("the header is not valid at byte ", position_, ": expected ", expected);
  }
  void skip_space() {
    while (position_ < text_.size() && std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos)
      ++position_;
  }
  bool accept(char c) {
    skip_space();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  void expect(char c, const char* expected) {
    if (!accept(c)) error(expected);
  }

  // Calls value(name) in front of each value, which it has to read.
  template <class F>
  void object(const F& value) {
    expect('{', "{");
    if (accept('}')) return;
    do {
      const std::string name = string();
      expect(':', ":");
      value(name);
    } while (accept(','));
    expect('}', "} or ,");
  }

  std::vector<std::int64_t> integers() {
    std::vector<std::int64_t> result;
    expect('[', "[");
    if (accept(']')) return result;
    do {
      skip_space();
      std::int64_t number = 0;
      const char* const begin = text_.data() + position_;
      const auto [end, status] = std::from_chars(begin, text_.data() + text_.size(), number);
      if (status != std::errc() || number < 0) error("a number of at most 2^63 - 1 that is not negative");
      position_ += static_cast<std::size_t>(end - begin);
      result.push_back(number);
    } while (accept(','));
    expect(']', "] or ,");
    return result;
  }

  std::uint32_t four_digits() {
    std::uint32_t code = 0;
    if (position_ + 4 > text_.size()) error("four hexadecimal digits");
    const char* const begin = text_.data() + position_;
    const auto [end, status] = std::from_chars(begin, begin + 4, code, 16);
    if (status != std::errc() || end != begin + 4) error("four hexadecimal digits");
    position_ += 4;
    return code;
  }

  // What follows \u, as UTF-8; two of them make one character outside the first plane.
  std::string unicode() {
    std::uint32_t code = four_digits();
    if (code >= 0xd800 && code < 0xdc00) {
      if (text_.substr(position_, 2) != "\\u") error("the second half of a surrogate pair");
      position_ += 2;
      const std::uint32_t low = four_digits();
      if (low < 0xdc00 || low > 0xdfff) error("the second half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    const auto byte = [](std::uint32_t bits) { return static_cast<char>(bits); };
    if (code < 0x80) return {byte(code)};
    if (code < 0x800) return {byte(0xc0 | (code >> 6)), byte(0x80 | (code & 63))};
    if (code < 0x10000) return {byte(0xe0 | (code >> 12)), byte(0x80 | ((code >> 6) & 63)), byte(0x80 | (code & 63))};
    return {byte(0xf0 | (code >> 18)), byte(0x80 | ((code >> 12) & 63)), byte(0x80 | ((code >> 6) & 63)),
            byte(0x80 | (code & 63))};
  }

  std::string string() {
    expect('"', "a string");
    std::string result;
    while (position_ < text_.size() && text_[position_] != '"') {
      const char c = text_[position_++];
      if (c != '\\') {
        result += c;
        continue;
      }
      constexpr std::string_view escapes = "\"\\/bfnrt";
      constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
      const char escape = position_ < text_.size() ? text_[position_++] : '\0';
      const std::size_t which = escapes.find(escape);
      if (escape == 'u')
        result += unicode();
      else if (which != std::string_view::npos)
        result += meanings[which];
      else
        error("an escape sequence");
    }
    if (position_ == text_.size()) error("the end of a string");
    ++position_;
    return result;
  }

  Dtype dtype() {
    const std::string text = string();
    for (std::size_t i = 0; i < dtype_names.size(); ++i)
      if (text == dtype_names[i]) return static_cast<Dtype>(i);
    fail("dtype ", text, " is not known");
  }

  HeaderEntry entry(const std::string& name) {
    HeaderEntry result{.name = name};
    int seen = 0;
    object([&](const std::string& key) {
      if (key == "dtype") {
        result.dtype = dtype();
        seen |= 1;
      } else if (key == "shape") {
        result.shape = Shape(std::span<const std::int64_t>(integers()));
        seen |= 2;
      } else if (key == "data_offsets") {
        const std::vector<std::int64_t> offsets = integers();
        if (offsets.size() != 2) error("two data_offsets");
        result.begin = static_cast<std::uint64_t>(offsets[0]);
        result.end = static_cast<std::uint64_t>(offsets[1]);
        seen |= 4;
      } else {
        error("dtype, shape or data_offsets");
      }
    });
    if (seen != 7) error("dtype, shape and data_offsets");
    return result;
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace

std::string write_header(const Header& header) {
  std::ostringstream out;
  out << "{\"__metadata__\":{";
  const char* separator = "";
  for (const auto& [key, value] : header.metadata) {
    out << std::exchange(separator, ",");
    write_string(out, key);
    out << ':';
    write_string(out, value);
  }
  out << '}';
  for (const HeaderEntry& entry : header.entries) {
    out << ',';
    write_string(out, entry.name);
    out << ":{\"dtype\":\"" << dtype_names[static_cast<std::size_t>(entry.dtype)] << "\",\"shape\":[";
    for (int axis = 0; axis < entry.shape.rank(); ++axis) out << (axis > 0 ? "," : "") << entry.shape[axis];
    out << "],\"data_offsets\":[" << entry.begin << ',' << entry.end << "]}";
  }
  out << '}';
  return out.str();
}

Header read_header(std::string_view text) {
  return Reader(text).header();
}

}  // namespace bevel::nn::detail
