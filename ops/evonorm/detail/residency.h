// Which problems the gate's one-read kernels take, and how they cut them up. A function of the sizes alone.
//
// A one-read kernel keeps its pictures in shared memory from the first look to the last: x forward, x and dy backward.
// A block has a tile, of whole groups, or a cluster of 2, 4 or 8 blocks has one together.
//
// NCHW: a tile is the maps of a group, or of several small ones; `lanes` threads have a map, of which each takes at
// most 13 packs where that is possible (8 where a map is less than a warp's). NHWC: a tile is `lanes` packs of adjacent
// channels, 64 to 512 bytes (fewer only if there are no more), of all pixels; the blocks of a cluster share out the
// pixels.
//
// How much a block holds decides how many fit into a multiprocessor, and only while some of them wait can others
// compute: four, if a cluster can be found for it, else two, else one. Then as few blocks a cluster as possible. In
// NHWC 128 bytes of channels come first, four or two blocks (in half types four blocks, and clusters of four with 128
// bytes); and pictures of up to 54 MiB, all in all, have larger blocks in clusters of one or two in place of four or
// eight. In NCHW those have blocks of one group where that makes 64 threads, and in two cases twice the threads.
//
// Two passes instead: f64; what a cluster of 8, or one block where the GPU has none, cannot hold; a group of more than
// 8 * 512 threads (NCHW); channels that do not fill packs of 16 bytes, or groups that do not fill 1 to 32 packs (NHWC).
#pragma once

#include <bevel/ops/evonorm/detail/problem.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <span>

namespace bevel::evo {

enum class Pass : std::uint8_t { forward, backward };

struct Residency {
  int pack = 0;  // elements that move at once; 0: two passes
  int lanes = 0;
  int threads = 0;
  int rows = 0;  // NCHW: maps a block; NHWC: pixels side by side
  int cluster = 1;

  explicit operator bool() const { return pack > 0; }
};

inline constexpr int one_read_threads = 512;
inline constexpr int largest_cluster = 8;
// Bytes of pictures in a block of which four, two or one fit into a multiprocessor of 227 KiB, beside the sums.
inline constexpr std::int64_t block_bytes[] = {52 * 1024, 104 * 1024, 208 * 1024};
// For few_pictures().
inline constexpr std::int64_t few_bytes = 54 * 1024 * 1024;
// GPUs without clusters may have as little as 99 KiB for a block.
inline constexpr std::int64_t block_bytes_without_clusters[] = {40 * 1024, 80 * 1024};

namespace detail {

constexpr int power_of_two_from(std::int64_t value) {
  int power = 1;
  while (power < value) power *= 2;
  return power;
}

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Bytes of a pack in shared memory, in all arrays of the pass.
constexpr std::int64_t slot_bytes(const Problem& p, int pack, Pass pass) {
  return std::max<std::int64_t>(4, pack * size_of(p.dtype)) * (pass == Pass::forward ? 1 : 2);
}

// Pictures that multiprocessors hold at once, or twice over: overlap matters less there than waiting for one another.
inline bool few_pictures(const Problem& p, int pack, Pass pass) {
  return p.samples * p.pixels * p.channels / pack * slot_bytes(p, pack, pass) <= few_bytes;
}

inline Residency resident_nchw(const Problem& p, int pack, Pass pass, int largest, std::int64_t bytes) {
  const std::int64_t packs = p.pixels / pack, width = p.channels / p.groups;
  int lanes = power_of_two_from(divide_up(packs, 8));
  if (lanes > 16) lanes = std::clamp(power_of_two_from(divide_up(packs, 13)), 32, one_read_threads);
  // Few pictures leave multiprocessors short of threads: measured in these two cases.
  const bool few = few_pictures(p, pack, pass);
  const bool more_threads = few && (pass == Pass::backward) == (p.dtype == f32);
  const std::int64_t map_bytes = packs * slot_bytes(p, pack, pass);
  for (int cluster = 1; cluster <= largest; cluster *= 2) {
    if (width % cluster != 0) continue;
    std::int64_t maps = width / cluster;
    if (more_threads && lanes >= 32 && packs > 8 * lanes && 2 * maps * lanes <= 256) lanes *= 2;
    if (maps * lanes > one_read_threads || maps * map_bytes > bytes) continue;
    if (cluster == 1)  // several small groups a block
      while (2 * maps * lanes <= (few ? 64 : 128) && 2 * maps * map_bytes <= bytes) maps *= 2;
    const int threads = static_cast<int>(divide_up(maps * lanes, 32) * 32);
    return {pack, lanes, threads, static_cast<int>(maps), cluster};
  }
  return {};
}

// lanes: a choice of them, in the order of preference.
inline Residency resident_nhwc(const Problem& p, int pack, Pass pass, int largest, std::int64_t bytes,
                               std::initializer_list<int> choice) {
  const std::int64_t width = p.channels / p.groups;
  for (const int lanes : choice) {
    const std::int64_t channels = std::int64_t{lanes} * pack;
    if (channels % width != 0 || p.channels % channels != 0) continue;
    if (lanes < 4 && channels != p.channels) continue;
    for (int cluster = 1; cluster <= largest; cluster *= 2) {
      const std::int64_t packs = divide_up(p.pixels, cluster) * lanes;
      if (packs * slot_bytes(p, pack, pass) > bytes || cluster > p.pixels) continue;
      int threads = packs / 256 >= (pass == Pass::forward ? 12 : 6) ? 256 : 128;
      // Half types have twice the arithmetic to a byte.
      if (bytes > block_bytes[0] && p.dtype != f32 && packs >= 4 * one_read_threads) threads = one_read_threads;
      return {pack, lanes, threads, threads / lanes, cluster};
    }
  }
  return {};
}

inline Residency resident_nhwc(const Problem& p, int pack, Pass pass, int largest,
                               std::span<const std::int64_t> limits) {
  // Half types have twice the arithmetic to a byte, and need four blocks more than they need wide ones.
  if (p.dtype != f32 && !few_pictures(p, pack, pass))
    for (const int lanes : {8, 4})
      if (const Residency r =
              resident_nhwc(p, pack, pass, lanes == 8 ? std::min(largest, 4) : largest, limits[0], {lanes}))
        return r;
  for (const auto lanes : {std::initializer_list<int>{8}, std::initializer_list<int>{4, 16, 32, 2, 1}})
    for (const std::int64_t limit : limits.first(2)) {
      const Residency r = resident_nhwc(p, pack, pass, largest, limit, lanes);
      if (!r) continue;
      if (r.cluster <= 2 || !few_pictures(p, pack, pass)) return r;
      const std::int64_t larger = block_bytes[pass == Pass::forward ? 1 : 2];
      Residency few = resident_nhwc(p, pack, pass, 2, larger, {4, 8, 16, 32, 2, 1});
      if (!few) return r;
      few.threads = one_read_threads;
      few.rows = few.threads / few.lanes;
      return few;
    }
  for (const std::int64_t limit : limits.subspan(2))
    if (const Residency r = resident_nhwc(p, pack, pass, largest, limit, {8, 4, 16, 32, 2, 1})) return r;
  return {};
}

}  // namespace detail

// `aligned`: bytes by which all pictures' addresses are divisible; `clusters`: whether the GPU has them.
inline Residency residency(const Problem& p, Pass pass, std::int64_t aligned, bool clusters) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  if (!p.gate() || p.dtype == f64 || p.samples * p.channels > most / largest_cluster || p.pixels > most / 64) return {};
  const int largest = clusters ? largest_cluster : 1;
  const std::int64_t bytes = size_of(p.dtype);
  const bool nchw = p.layout == Layout::nchw;
  for (int pack = 16 / static_cast<int>(bytes); pack >= 1; pack = pack > 4 ? 4 : pack > 1 ? 1 : 0) {
    if ((nchw ? p.pixels : p.channels) % pack != 0 || aligned % (pack * bytes) != 0) continue;
    if (!nchw && pack * bytes != 16) return {};
    const std::span<const std::int64_t> limits =
        clusters ? std::span<const std::int64_t>(block_bytes) : block_bytes_without_clusters;
    if (!nchw) return detail::resident_nhwc(p, pack, pass, largest, limits);
    for (const std::int64_t limit : limits)
      if (const Residency r = detail::resident_nchw(p, pack, pass, largest, limit)) return r;
    return {};
  }
  return {};
}

}  // namespace bevel::evo
