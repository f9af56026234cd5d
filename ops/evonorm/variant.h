// The members of the EvoNorm family; their formulas stand in evonorm.h.
#pragma once

#include <cstdint>
#include <ostream>

namespace bevel {

enum class EvoNorm : std::uint8_t { B0, B1, B2, S0, S1, S2 };

constexpr const char* name(EvoNorm variant) {
  constexpr const char* names[] = {"B0", "B1", "B2", "S0", "S1", "S2"};
  return names[static_cast<int>(variant)];
}

inline std::ostream& operator<<(std::ostream& out, EvoNorm variant) {
  return out << name(variant);
}

// B0, B1 and B2 divide by a statistic of the batch.
constexpr bool has_batch_term(EvoNorm variant) {
  return variant <= EvoNorm::B2;
}

// B0 and S0 have the learnt parameter v.
constexpr bool has_v(EvoNorm variant) {
  return variant == EvoNorm::B0 || variant == EvoNorm::S0;
}

}  // namespace bevel
