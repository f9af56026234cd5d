#include <bevel/ops/evonorm/detail/one_read.h>

namespace bevel::evo {

namespace {

int narrow(std::int64_t value) {
  return static_cast<int>(value);
}

int logarithm(int value) {
  int shift = 0;
  while (1 << shift < value) ++shift;
  return shift;
}

int by_fours(int floats) {
  return (floats + 3) / 4 * 4;
}

// NHWC sums packs where a pack belongs to one group, and single channels where it does not, and in backward, which
// wants the channels' sums as well.
void cut_nhwc(OneRead& s, const Problem& p, const Residency& r, Pass pass) {
  s.row_shift = logarithm(r.rows);
  s.pixels_a_block = narrow(detail::divide_up(p.pixels, r.cluster));
  s.packs = s.pixels_a_block * r.lanes;
  s.block_channels = r.lanes * r.pack;
  s.block_groups = s.block_channels / s.width;
  s.group_channels = s.width;
  s.tiles_per_sample = s.channels / s.block_channels;
  s.tiles = narrow(p.samples) * s.tiles_per_sample;
  s.coarse = s.width % r.pack == 0;
  const bool packs = s.coarse && pass == Pass::forward;
  s.group_keys = packs ? s.width / r.pack : s.width;
  s.parts = r.threads / 32;
  s.key_step = 1;
  s.part_step = packs ? r.lanes : s.block_channels;
  s.partial_pitch = s.parts * s.part_step;
  s.stride = std::int64_t{r.rows} * p.channels;
  s.plane = p.samples * r.cluster * p.channels;
  s.array_bytes = s.packs;
}

void cut_nchw(OneRead& s, const Problem& p, const Residency& r) {
  s.packs = narrow(p.pixels / r.pack);
  s.block_channels = r.rows;
  s.block_groups = r.cluster > 1 ? 1 : r.rows / s.width;
  s.group_channels = s.group_keys = r.cluster > 1 ? r.rows : s.width;
  s.tiles = narrow(detail::divide_up(s.maps, std::int64_t{r.rows} * r.cluster));
  s.coarse = true;
  s.key_lanes = std::min(r.lanes, 32);
  s.key_shift = logarithm(s.key_lanes);
  s.parts = std::max(1, r.lanes / 32);
  s.key_step = s.parts;
  s.part_step = 1;
  s.partial_pitch = r.threads / s.key_lanes;
  s.stride = std::int64_t{r.lanes} * r.pack;
  s.plane = p.samples * p.channels;
  s.array_bytes = s.packs * r.rows;
}

// A thread's packs in four stages, or in one if they are few.
int stage_packs(const OneRead& s, const Problem& p) {
  const std::int64_t packs =
      p.layout == Layout::nhwc ? detail::divide_up(s.pixels_a_block, s.rows) : detail::divide_up(s.packs, s.lanes);
  return narrow(packs < 6 ? packs : detail::divide_up(packs, 4));
}

}  // namespace

OneRead one_read(const Problem& p, const Residency& r, Pass pass) {
  OneRead s{};
  s.channels = narrow(p.channels);
  s.pixels = narrow(p.pixels);
  s.width = narrow(p.channels / p.groups);
  s.width_shift = 1 << logarithm(s.width) == s.width ? logarithm(s.width) : -1;
  s.maps = narrow(p.samples * p.channels);
  s.slices = narrow(p.samples * p.groups);
  s.lanes = r.lanes;
  s.lane_shift = logarithm(r.lanes);
  s.rows = r.rows;
  s.cluster = r.cluster;
  s.about_zero = p.about_zero();
  s.eps = static_cast<float>(p.eps);
  s.group_elements = static_cast<float>(p.pixels) * static_cast<float>(s.width);
  if (p.layout == Layout::nhwc)
    cut_nhwc(s, p, r, pass);
  else
    cut_nchw(s, p, r);
  s.stage_packs = stage_packs(s, p);
  s.parts_shift = logarithm(s.parts);
  s.array_bytes *= narrow(detail::slot_bytes(p, r.pack, Pass::forward));
  const bool forward = pass == Pass::forward;
  s.partial_floats = by_fours((forward ? 4 : 3) * s.partial_pitch);
  s.parameter_floats = by_fours((forward ? 3 : 2) * s.block_channels);
  s.exchange_floats = r.cluster > 1 ? r.cluster * (forward ? 4 : 1) * s.block_groups : 0;
  const int result_rows = forward ? 1 : 5;
  s.slots_at = 4 * (s.partial_floats + s.parameter_floats + by_fours(s.exchange_floats + result_rows * s.block_groups));
  return s;
}

}  // namespace bevel::evo
