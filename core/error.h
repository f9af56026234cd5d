// Errors: one exception type, whose message says which function, what was wrong, what was there and what was expected.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace bevel {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Out of memory on any device; the process stays usable (see memory.h).
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// The parts, written one after the other as by operator<<.
template <class... Parts>
std::string message(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// fail("conv2d: groups must divide the ", channels, " input channels; got ", groups) throws Error.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(message(parts...));
}

// Throws Error with the message unless `condition` holds. The message is built only then.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail(parts...);
}

}  // namespace bevel
