// How the one-read kernels are called: what they are told of a problem, and of memory.
#pragma once

#include <bevel/core/hostdevice.h>
#include <bevel/ops/evonorm/detail/residency.h>

#include <cstdint>

namespace bevel::evo {

// Sums are kept of keys: the maps of a block (NCHW), or its channels or packs of channels (NHWC). Where more threads
// than a warp can sum have parts of a key, there are several parts. Value k of part j of key i is at
// k * partial_pitch + i * key_step + j * part_step.
struct OneRead {
  int channels, pixels, width, width_shift;  // width: channels a group; width_shift: its logarithm, or -1
  int maps, slices;                          // samples * channels, samples * groups
  int lanes, lane_shift;                     // lanes is a power of two
  int rows, row_shift;                       // NHWC: rows is a power of two, too
  int packs;                                 // NCHW: of a map; NHWC: of a block
  int stage_packs;                           // of a thread, which has four times as many at most
  int cluster, tiles;
  int tiles_per_sample, pixels_a_block;  // NHWC
  int key_lanes, key_shift;              // NCHW: adjacent lanes that share a key; a power of two
  bool coarse;                           // a whole pack belongs to one group
  bool about_zero;
  int block_channels, block_groups, group_channels;  // what a block has of a group, if the cluster shares it
  int group_keys, parts, parts_shift, key_step, part_step, partial_pitch;        // parts: a power of two
  int partial_floats, parameter_floats, exchange_floats, slots_at, array_bytes;  // of shared memory
  std::int64_t stride, plane;                                                    // plane: of `sums`
  float eps, group_elements;

  BEVEL_HD int group_of(int channel) const { return width_shift >= 0 ? channel >> width_shift : channel / width; }
  // Which of the block's groups the block's channel belongs to.
  BEVEL_HD int group_of_local(int channel) const { return block_groups == 1 ? 0 : group_of(channel); }
  int shared_bytes(Pass pass) const { return slots_at + array_bytes * (pass == Pass::forward ? 1 : 2); }
};

OneRead one_read(const Problem& p, const Residency& r, Pass pass);

struct OneReadForward {
  const void* x;
  void* y;
  const float* gamma;
  const float* beta;
  const float* v;  // null: 1
  float* slice;    // [3, N * G]: mean in two parts, 1 / deviation
};

struct OneReadBackward {
  const void* x;
  const void* dy;
  void* dx;  // null where it is not wanted
  const float* gamma;
  const float* v;  // null: 1
  const float* slice;
  float* sums;  // [3, N * runs, C]: shares in dgamma, dbeta, dv; runs is 1 in NCHW, the cluster's blocks in NHWC
};

// Whether the code that this device runs was compiled for sm_90 or later.
bool one_read_kernels_know_clusters();

// Launchers, on the stream of `where`; each is defined with its kernels.
void one_read_forward_nchw(const raw::OnStream& where, Dtype, const Residency&, const OneRead&, const OneReadForward&);
void one_read_backward_nchw(const raw::OnStream& where, Dtype, const Residency&, const OneRead&,
                            const OneReadBackward&);
void one_read_forward_nhwc(const raw::OnStream& where, Dtype, const Residency&, const OneRead&, const OneReadForward&);
void one_read_backward_nhwc(const raw::OnStream& where, Dtype, const Residency&, const OneRead&,
                            const OneReadBackward&);

}  // namespace bevel::evo
