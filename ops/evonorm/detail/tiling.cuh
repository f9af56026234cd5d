// How the two-pass kernels cut pictures up.
//
// NHWC: a block takes `lanes` packs of adjacent channels and one of `splits` runs of pixels of one sample; 256 / lanes
// rows of threads stride over the pixels. NCHW: `threads` threads (4 to 32, or 256) take one run of one map. A thread
// has `K` channels: those of its packs in NHWC, one in NCHW.
#pragma once

#include <bevel/ops/evonorm/detail/problem.h>

#include <algorithm>

namespace bevel::evo {

inline constexpr int block_threads = 256;

inline constexpr int block_shift = 8;
static_assert(block_threads == 1 << block_shift);

// How the two-pass kernels cut a problem up. Depends on its sizes alone, so that results do, too.
struct Tiling {
  std::int64_t samples, pixels, channels;
  bool nhwc;
  int lane_shift;             // NHWC: logarithm of the packs of channels a block; at most 5
  int thread_shift;           // NCHW: logarithm of the threads a run
  int splits;                 // runs of pixels a map is cut into
  std::int64_t split_pixels;  // in each but the last

  BEVEL_HD int lanes() const { return 1 << lane_shift; }
  BEVEL_HD int threads() const { return 1 << thread_shift; }
  BEVEL_HD std::int64_t tiles(int pack) const {
    return nhwc ? (channels / pack + lanes() - 1) >> lane_shift : channels;  // in the axis of channels
  }
  unsigned blocks(int pack) const {
    const std::int64_t runs = samples * tiles(pack) * splits;
    return static_cast<unsigned>(nhwc ? runs : ((runs << thread_shift) + block_threads - 1) / block_threads);
  }
};

inline Tiling tiling(const Problem& p, int pack) {
  Tiling t{.samples = p.samples,
           .pixels = p.pixels,
           .channels = p.channels,
           .nhwc = p.layout == Layout::nhwc,
           .lane_shift = 0,
           .thread_shift = p.pixels > 16384 ? 8 : 2,
           .splits = 1,
           .split_pixels = p.pixels};
  // Up to 256 bytes of channels, in NHWC.
  const std::int64_t most_lanes = std::clamp<std::int64_t>(256 / (pack * size_of(p.dtype)), 1, 32);
  while (t.lanes() < most_lanes && t.lanes() < p.channels / pack) ++t.lane_shift;
  while (t.threads() < 32 && t.threads() * 8 < p.pixels / pack) ++t.thread_shift;
  // About 1024 blocks, of at least 12 pixels a thread in NHWC and 4096 a block in NCHW.
  const std::int64_t runs = p.samples * t.tiles(pack);
  const std::int64_t wanted = t.nhwc || t.threads() == block_threads ? 1024 / runs : 1;
  const std::int64_t least = t.nhwc ? 12 * (block_threads / t.lanes()) : 4096;
  const std::int64_t splits = std::clamp<std::int64_t>(std::min(wanted, p.pixels / least), 1, 256);
  t.split_pixels = (p.pixels + splits - 1) / splits;
  t.split_pixels = (t.split_pixels + 15) / 16 * 16;  // runs of an aligned map begin aligned
  t.splits = static_cast<int>((p.pixels + t.split_pixels - 1) / t.split_pixels);
  return t;
}

// Where a thread works. NHWC: pixels first, first + step ... < last of `pack` channels from `channel`. NCHW: the same
// of one channel, in packs of neighbouring pixels.
struct Place {
  std::int64_t sample, channel, run;
  std::int64_t first_channel;         // NHWC: of the block
  std::int64_t start, first, stride;  // offsets in x: of the run, of the thread's first pack, between its packs
  int count;                          // of its packs
  bool active;
};

// value / by, and what is left in `value`: by an instruction or two where by is 1 or both are short.
__device__ inline std::int64_t divide(std::int64_t& value, std::int64_t by) {
  if (by == 1) {
    const std::int64_t all = value;
    value = 0;
    return all;
  }
  std::int64_t quotient;
  if (((value | by) >> 32) == 0)
    quotient = static_cast<unsigned>(value) / static_cast<unsigned>(by);
  else
    quotient = value / by;
  value -= quotient * by;
  return quotient;
}

// `reverse`: the blocks begin at the end, where the pass before has just been and the second-level cache has x.
template <int P>
__device__ inline Place place(const Tiling& t, bool reverse = false) {
  Place at;
  const std::int64_t block = reverse ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  at.run = t.nhwc ? block : (block << (block_shift - t.thread_shift)) + (thread >> t.thread_shift);
  std::int64_t tile = divide(at.run, t.splits);
  at.sample = divide(tile, t.tiles(P));
  const std::int64_t begin = at.run * t.split_pixels;
  const std::int64_t pixels = begin + t.split_pixels < t.pixels ? t.split_pixels : t.pixels - begin;
  if (t.nhwc) {
    const int lane = thread & (t.lanes() - 1), row = thread >> t.lane_shift, row_shift = block_shift - t.lane_shift;
    at.first_channel = (tile << t.lane_shift) * P;
    at.channel = at.first_channel + lane * P;
    at.active = at.channel < t.channels;
    at.start = (at.sample * t.pixels + begin) * t.channels + at.channel;
    at.first = at.start + row * t.channels;
    at.stride = t.channels << row_shift;
    at.count = static_cast<int>((pixels - row + (1 << row_shift) - 1) >> row_shift);
  } else {
    const int row = thread & (t.threads() - 1);
    at.channel = at.first_channel = tile;
    at.active = at.sample < t.samples;
    at.start = (at.sample * t.channels + at.channel) * t.pixels + begin;
    at.first = at.start + row * P;
    at.stride = std::int64_t{P} << t.thread_shift;
    at.count = static_cast<int>((pixels / P - row + t.threads() - 1) >> t.thread_shift);
  }
  if (!at.active || at.count < 0) at.count = 0;
  return at;
}

// Where a result of a thread goes: sample, run and channel of a table of [samples, splits, channels]. In NHWC the
// thread stands for another one's place: `lane` is its pack's.
template <int P>
__device__ inline std::int64_t result_place(const Tiling& t, const Place& at, int lane, int k) {
  const std::int64_t channel = t.nhwc ? at.first_channel + lane * P + k : at.channel;
  return (at.sample * t.splits + at.run) * t.channels + channel;
}
template <int P>
__device__ inline bool result_exists(const Tiling& t, const Place& at, int lane) {
  return t.nhwc ? at.first_channel + lane * P < t.channels : at.sample < t.samples;
}

}  // namespace bevel::evo
