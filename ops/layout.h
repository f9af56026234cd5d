// The two orders of axes of a batch of pictures.
#pragma once

#include <cstdint>
#include <ostream>

namespace bevel {

// nhwc: [batch, height, width, channels], channels innermost; the default everywhere.
// nchw: [batch, channels, height, width].
enum class Layout : std::uint8_t { nhwc, nchw };

constexpr const char* name(Layout layout) {
  return layout == Layout::nhwc ? "nhwc" : "nchw";
}

inline std::ostream& operator<<(std::ostream& out, Layout layout) {
  return out << name(layout);
}

}  // namespace bevel
