// Activations that operators can end with.
#pragma once

#include <cstdint>

namespace bevel {

enum class Activation : std::uint8_t { none, relu, silu, gelu };

}  // namespace bevel
