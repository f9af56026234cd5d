// Pictures that the program draws itself: a textured background, one target among distractors.
#pragma once

#include <cstdint>

#include "box.h"
#include "image.h"

namespace bbox {

struct Drawn {
  Image image;
  Box box;  // of the target, in shares of the sides, tight around its outline
};

// Draws picture `index` of the endless series that `seed` names; it depends on these numbers and the size alone.
// The target is a filled ellipse of any colour, tilt and elongation with a dark rim and a bright core, 15 to 60 % of
// the side wide and high, wholly inside the picture and in front. Distractors are triangles, rectangles, crosses,
// thin rings and plain discs, up to seven of them. Everything is antialiased.
// Errors: a size below 16 or above 4096.
Drawn draw_picture(std::uint64_t seed, std::uint64_t index, int size);

}  // namespace bbox
