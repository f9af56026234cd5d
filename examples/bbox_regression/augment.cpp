#include "augment.h"

#include "draws.h"

namespace bbox {
Change draw_change(const Box& box, std::uint64_t seed, std::uint64_t epoch, std::uint64_t index) {
  Draws draws(seed, index, epoch);
  Change change;
  change.flip = draws.chance(0.5f);
  change.scale_x = draws.uniform(0.75f, 1.35f);
  change.scale_y = draws.uniform(0.75f, 1.35f);
  const CentreBox centre = to_centre(box);
  const float cx = change.flip ? 1 - centre.cx : centre.cx;
  const float new_cx = cx + 0.5f * (draws.uniform(0.15f, 0.85f) - cx);
  const float new_cy = centre.cy + 0.5f * (draws.uniform(0.15f, 0.85f) - centre.cy);
  change.offset_x = new_cx - cx * change.scale_x;
  change.offset_y = new_cy - centre.cy * change.scale_y;
  change.brightness = draws.uniform(0.8f, 1.2f);
  return change;
}

Box changed(const Box& box, const Change& change) {
  const float left = change.flip ? 1 - box.x2 : box.x1;
  const float right = change.flip ? 1 - box.x1 : box.x2;
  const Box moved{left * change.scale_x + change.offset_x, box.y1 * change.scale_y + change.offset_y,
                  right * change.scale_x + change.offset_x, box.y2 * change.scale_y + change.offset_y};
  return intersect(moved, {0, 0, 1, 1});
}

WarpRow warp_row(const Change& change) {
  // Mirrored first: what lay at x lies at 1 - x before it is scaled and moved.
  if (change.flip)
    return {-change.scale_x, change.scale_y, change.offset_x + change.scale_x, change.offset_y, change.brightness};
  return {change.scale_x, change.scale_y, change.offset_x, change.offset_y, change.brightness};
}

}  // namespace bbox
