// Copies move elements as bits, so only their width matters.
#pragma once

#include <bevel/core/error.h>

#include <cstdint>

namespace bevel::kernel {

// Calls f with an unsigned value of that many bytes: 1, 2, 4 or 8.
template <class F>
void visit_width(std::int64_t bytes, const F& f) {
  switch (bytes) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    case 8:
      return f(std::uint64_t{});
    default:
      fail("visit_width: no element has ", bytes, " bytes");
  }
}

}  // namespace bevel::kernel
