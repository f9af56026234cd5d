// Two numbers for the two axes of a picture.
#pragma once

#include <cstdint>
#include <ostream>

namespace bevel {

// {h, w}; a single number stands for both: .stride = 2, .padding = {1, 0}.
struct Pair {
  std::int64_t h = 0;
  std::int64_t w = 0;

  constexpr Pair(std::int64_t both) : h(both), w(both) {}
  constexpr Pair(std::int64_t height, std::int64_t width) : h(height), w(width) {}

  friend constexpr bool operator==(const Pair&, const Pair&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const Pair& pair) {
  return out << "(" << pair.h << ", " << pair.w << ")";
}

}  // namespace bevel
