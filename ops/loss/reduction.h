// How the elements of a loss become its value.
#pragma once

#include <cstdint>

namespace bevel {

// none: one value an element, of the input's shape and dtype. mean: their sum over the element count (or over the
// normaliser, where one is given). sum: their sum. mean and sum are scalars, f32 for the half types.
enum class Reduction : std::uint8_t { none, mean, sum };

constexpr const char* name(Reduction reduction) {
  constexpr const char* names[] = {"none", "mean", "sum"};
  return names[static_cast<int>(reduction)];
}

}  // namespace bevel
