// Which problems the gate's one-read kernels take, and how they cut them up. A function of the sizes alone.
//
// A one-read kernel keeps its pictures in registers from the first look to the last: `vectors` packs of 16 bytes (or 8,
// or one element, where sizes do not allow more) a thread, of x forward, of x and dy backward. What one block of 256
// threads cannot hold, a cluster of 2, 4 or 8 blocks holds together.
//
// NCHW: `lanes` threads hold a map, `maps` maps are a block's. A block holds one or more whole groups, or
// 1 / `cluster` of one. NHWC: a block holds `lanes` packs of adjacent channels, whole groups, of a run of pixels.
//
// Two passes instead: f64; a map of more than 2048 packs (NCHW); a group of more than 8 * 256 threads (NCHW); more
// pixels than 4 blocks hold, channels that do not fill packs, or groups that do not fill 4 to 32 packs (NHWC); a
// cluster where the GPU has none.
#pragma once

#include <bevel/ops/evonorm/detail/problem.h>

#include <algorithm>
#include <limits>

namespace bevel::evo {

struct Residency {
  int pack = 0;  // elements; 0: two passes
  int vectors = 0;
  int lanes = 0;
  int maps = 0;  // NCHW
  int threads = 0;
  int cluster = 1;

  explicit operator bool() const { return pack > 0; }
};

inline constexpr int resident_threads = 256;
inline constexpr int resident_vectors = 8;
inline constexpr int largest_cluster = 8;
// In NHWC clusters of 8 were measured to be slower than two passes (on an H200).
inline constexpr int largest_cluster_nhwc = 4;

namespace detail {

constexpr int power_of_two_from(std::int64_t value) {
  int power = 1;
  while (power < value) power *= 2;
  return power;
}

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

inline Residency resident_nchw(const Problem& p, int pack, int largest) {
  const std::int64_t packs = p.pixels / pack, width = p.channels / p.groups;
  if (packs > std::int64_t{resident_vectors} * resident_threads) return {};
  const int lanes = power_of_two_from(divide_up(packs, resident_vectors));
  const int vectors = divide_up(packs, lanes) <= 4 && pack > 1 ? 4 : resident_vectors;
  for (int cluster = 1; cluster <= largest; cluster *= 2) {
    if (width % cluster != 0 || width / cluster * lanes > resident_threads) continue;
    std::int64_t maps = width / cluster;
    if (cluster == 1)  // several small groups a block
      while (2 * maps * lanes <= resident_threads / 2) maps *= 2;
    const int threads = static_cast<int>(divide_up(maps * lanes, 32) * 32);
    return {pack, vectors, lanes, static_cast<int>(maps), threads, cluster};
  }
  return {};
}

inline Residency resident_nhwc(const Problem& p, int pack, int most) {
  const int largest = std::min(most, largest_cluster_nhwc);
  const std::int64_t width = p.channels / p.groups;
  for (const int lanes : {8, 4, 16, 32, 2, 1}) {  // 128 bytes of adjacent channels if possible, else 64
    const std::int64_t channels = std::int64_t{lanes} * pack;
    if (channels % width != 0 || p.channels % channels != 0) continue;
    if (lanes < 4 && channels != p.channels) continue;
    const std::int64_t rows = resident_threads / lanes;
    int cluster = 1;
    while (cluster < largest && cluster * rows * resident_vectors < p.pixels) cluster *= 2;
    if (cluster * rows * resident_vectors < p.pixels) continue;
    const int vectors = divide_up(divide_up(p.pixels, cluster), rows) <= 4 ? 4 : resident_vectors;
    return {pack, vectors, lanes, 0, resident_threads, cluster};
  }
  return {};
}

}  // namespace detail

// `aligned`: bytes by which all pictures' addresses are divisible; `clusters`: whether the GPU has them.
inline Residency residency(const Problem& p, std::int64_t aligned, bool clusters) {
  if (!p.gate() || p.dtype == f64 || p.samples * p.channels > std::numeric_limits<int>::max()) return {};
  const int largest = clusters ? largest_cluster : 1;
  const std::int64_t bytes = size_of(p.dtype);
  const bool nchw = p.layout == Layout::nchw;
  for (int pack = 16 / static_cast<int>(bytes); pack >= 1; pack = pack > 4 ? 4 : pack > 1 ? 1 : 0) {
    if ((nchw ? p.pixels : p.channels) % pack != 0 || aligned % (pack * bytes) != 0) continue;
    if (nchw) return detail::resident_nchw(p, pack, largest);
    return pack * bytes == 16 ? detail::resident_nhwc(p, pack, largest) : Residency{};
  }
  return {};
}

}  // namespace bevel::evo
