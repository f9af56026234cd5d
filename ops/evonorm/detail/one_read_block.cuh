// What the one-read kernels are made of: where a thread works, what a block keeps in shared memory, sums over the
// threads that share a key, and merging over blocks and clusters.
#pragma once

#include <bevel/ops/evonorm/detail/one_read.h>
#include <bevel/ops/evonorm/detail/async.cuh>
#include <bevel/ops/evonorm/detail/cluster.cuh>
#include <bevel/ops/evonorm/detail/merging.cuh>

namespace bevel::evo {

template <int N>
__device__ inline void add_across(float (&value)[N], int step) {
#pragma unroll
  for (int i = 0; i < N; ++i) value[i] += __shfl_xor_sync(~0u, value[i], step);
}

// Sums over the threads of a warp that share a key: in NCHW over `key_lanes` adjacent lanes, in NHWC over every
// `lanes`th one.
template <bool nhwc, int N>
__device__ inline void key_sums(const OneRead& s, float (&value)[N]) {
  if constexpr (nhwc) {
    if (s.lanes <= 1) add_across(value, 1);
    if (s.lanes <= 2) add_across(value, 2);
    if (s.lanes <= 4) add_across(value, 4);
    if (s.lanes <= 8) add_across(value, 8);
    if (s.lanes <= 16) add_across(value, 16);
  } else {
    if (s.key_lanes > 1) add_across(value, 1);
    if (s.key_lanes > 2) add_across(value, 2);
    if (s.key_lanes > 4) add_across(value, 4);
    if (s.key_lanes > 8) add_across(value, 8);
    if (s.key_lanes > 16) add_across(value, 16);
  }
}

// --- places ---

// Where a thread works.
struct Share {
  int map;              // first map of the block: sample * channels + channel
  int sample, channel;  // of that map
  int lane, row;        // of the thread: packs of a row, rows side by side
  int local;            // first channel of the thread in the block
  int count;            // packs
  int slot;             // of the first, in the block's array
  std::int64_t start;   // element of the first
};

template <int P, bool nhwc>
__device__ inline Share share_of(const OneRead& s, unsigned rank) {
  Share at;
  const int thread = static_cast<int>(threadIdx.x);
  const unsigned tile = blockIdx.x / static_cast<unsigned>(s.cluster);
  at.lane = thread & (s.lanes - 1);
  at.row = thread >> s.lane_shift;
  if constexpr (nhwc) {
    const unsigned sample = tile / static_cast<unsigned>(s.tiles_per_sample);
    at.sample = static_cast<int>(sample);
    at.channel = static_cast<int>(tile - sample * static_cast<unsigned>(s.tiles_per_sample)) * (s.lanes * P);
    const int first = static_cast<int>(rank) * s.pixels_a_block;
    const int pixels = min(s.pixels_a_block, s.pixels - first);
    at.map = at.sample * s.channels + at.channel;
    at.local = at.lane * P;
    at.start = (std::int64_t{at.sample} * s.pixels + first + at.row) * s.channels + at.channel + at.local;
    at.count = at.row < pixels ? (pixels - at.row + s.rows - 1) >> s.row_shift : 0;
    at.slot = thread;
  } else {
    at.map = static_cast<int>(blockIdx.x) * s.rows;
    at.sample = static_cast<int>(static_cast<unsigned>(at.map) / static_cast<unsigned>(s.channels));
    at.channel = at.map - at.sample * s.channels;
    at.local = min(at.row, s.rows - 1);
    at.start = std::int64_t{at.map + at.row} * s.pixels + at.lane * P;
    const bool active = at.row < s.rows && at.map + at.row < s.maps && at.lane < s.packs;
    at.count = active ? (s.packs - at.lane + s.lanes - 1) >> s.lane_shift : 0;
    at.slot = at.row * s.packs + at.lane;
  }
  return at;
}

// The block's dynamic shared memory: partial values of keys, parameters by channel, what the cluster exchanges, results
// of groups; then the slots.
struct Board {
  float *partial, *parameters, *exchange, *results;
  char* slots;
  __device__ Board(const OneRead& s, float* memory)
      : partial(memory),
        parameters(partial + s.partial_floats),
        exchange(parameters + s.parameter_floats),
        results(exchange + s.exchange_floats),
        slots(reinterpret_cast<char*>(memory) + s.slots_at) {}
};

// to[k] = from[k]; by fours if there are fours, since then `from` is aligned for it.
template <int K>
__device__ inline void read_row(const float* from, float (&to)[K]) {
  if constexpr (K % 4 == 0) {
#pragma unroll
    for (int k = 0; k < K; k += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + k);
      to[k] = four.x;
      to[k + 1] = four.y;
      to[k + 2] = four.z;
      to[k + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int k = 0; k < K; ++k) to[k] = from[k];
  }
}

// Results of the groups of a thread's keys, `row` of results.
template <bool nhwc, int K>
__device__ inline void read_results(const OneRead& s, const float* results, int local, float (&to)[K]) {
  if (nhwc ? s.coarse : true) {
    const float result = results[s.group_of_local(local)];
#pragma unroll
    for (int k = 0; k < K; ++k) to[k] = result;
  } else {
#pragma unroll
    for (int k = 0; k < K; ++k) to[k] = results[s.group_of_local(local + k)];
  }
}

// The block's groups: merges the `items` of each over a warp, hands the result to the whole cluster, and merges what
// the cluster's blocks have. meanwhile() is called by all threads before they wait for other blocks; finish(group,
// value) in one thread a group of every block; what it writes may be read after.
template <class Merge, int K, class Item, class Meanwhile, class Finish>
__device__ inline void merge_groups(const OneRead& s, unsigned rank, Mailbox& mailbox, float* exchange, int items,
                                    const Item& item, const Meanwhile& meanwhile, const Finish& finish) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  int lanes = 32;
  while (lanes / 2 >= items) lanes /= 2;
  if (s.cluster > 1) cluster_wait();
  for (int g = warp; g < s.block_groups; g += warps) {
    float value[K] = {};
    for (int j = lane; j < items; j += 32) {
      float other[K];
      item(g, j, other);
      Merge::merge(value, other);
    }
    for (int step = lanes / 2; step > 0; step /= 2) {
      float other[K];
#pragma unroll
      for (int k = 0; k < K; ++k) other[k] = __shfl_xor_sync(~0u, value[k], step);
      Merge::merge(value, other);
    }
    if (s.cluster == 1) {
      if (lane == 0) finish(g, value);
      continue;
    }
    // A merge is not the same from both sides to the last bit: lane 0's is the one that counts.
#pragma unroll
    for (int k = 0; k < K; ++k) value[k] = __shfl_sync(~0u, value[k], 0);
    if (lane < s.cluster)
      mailbox.send(exchange + (static_cast<int>(rank) * s.block_groups + g) * K, static_cast<unsigned>(lane), value);
  }
  meanwhile();
  if (s.cluster > 1)
    for (int g = thread; g < s.block_groups; g += static_cast<int>(blockDim.x)) {
      mailbox.wait();
      float value[K] = {};
      for (int r = 0; r < s.cluster; ++r) {
        float other[K];
        read_row(exchange + (r * s.block_groups + g) * K, other);
        Merge::merge(value, other);
      }
      finish(g, value);
    }
  __syncthreads();
}

__device__ inline float power_of_two(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// Begins the copies of the block's parameters: row k of them from pointer[k] + the channel's or the group's number.
// A missing pointer stands for ones.
template <int rows>
__device__ inline void fetch_parameters(const OneRead& s, const Share& share, float* to,
                                        const float* const (&by_channel)[rows]) {
  for (int j = static_cast<int>(threadIdx.x); j < s.block_channels; j += static_cast<int>(blockDim.x)) {
    int channel = share.channel + j;
    if (channel >= s.channels) channel %= s.channels;
#pragma unroll
    for (int k = 0; k < rows; ++k)
      if (by_channel[k] != nullptr)
        copy_async<4>(shared_address(to + k * s.block_channels + j), by_channel[k] + channel);
      else
        to[k * s.block_channels + j] = 1.0f;
  }
}

// Packs arrive in stages, so that threads work on the first while later ones are on their way; unless they are short,
// as those of small maps in NCHW are, where that would cost more instructions than time.
template <class T, int P>
inline constexpr int stages_of = P * sizeof(T) == 16 ? 4 : 1;

template <int stages>
__device__ inline void wait_stage(int stage) {
  static_assert(stages == 1 || stages == 4);
  if (stage == stages - 1)
    wait_copies<0>();
  else if (stage == 2)
    wait_copies<1>();
  else if (stage == 1)
    wait_copies<2>();
  else
    wait_copies<3>();
}

}  // namespace bevel::evo
