// A tile of a small product, in phases that every thread of a block runs between barriers. The phases are plain
// functions of the thread's number, so that a test can run them on the host, thread after thread.
//
// A block makes 16 x 16 elements of C[i, j] = sum over k of A[i, k] B[k, j]. Its 256 threads form four teams that share
// the sum: in a slab of 128 terms, team g takes terms 32 g to 32 g + 31, each of its threads for 2 x 2 elements.
#pragma once

#include <bevel/core/hostdevice.h>

#include <cstdint>

namespace bevel::detail {

// One product of a launch. All elements are f32; strides are in elements.
struct SmallProduct {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* mask = nullptr;  // as `a`: where it is not positive A counts as 0. Null: nowhere
  std::int32_t a_i = 0, a_k = 0;
  std::int32_t b_k = 0, b_j = 0;
  std::int32_t i_size = 0, j_size = 0, k_size = 0;
  float* c = nullptr;           // [i_size, j_size], dense
  const float* bias = nullptr;  // added to each row of C
  float* sums = nullptr;        // gets the sums of A over k
  bool relu = false;            // C = max(C, 0), NaN staying NaN

  BEVEL_HD std::int32_t j_tiles() const { return (j_size + 15) / 16; }
  BEVEL_HD std::int32_t tiles() const { return (i_size + 15) / 16 * j_tiles(); }
};

namespace small {

inline constexpr int threads = 256;
inline constexpr int side = 16;
inline constexpr int slab = 128;
inline constexpr int pitch = side + 2;  // keeps pairs aligned and spreads the rows over the banks

struct Shared {
  float a[slab][pitch];
  float b[slab][pitch];
  float parts[4][side * side];
  float sums[4][side];
};

// What a thread holds between phases.
struct Sums {
  float c[2][2] = {{0, 0}, {0, 0}};
  float a[2] = {0, 0};
};

struct Place {
  std::int32_t i0, j0;
};
BEVEL_HD Place place_of(const SmallProduct& p, std::int32_t tile) {
  return {tile / p.j_tiles() * side, tile % p.j_tiles() * side};
}

// Which elements of a slab a thread brings: rows (i of A, j of B) and terms in steps, so that neighbouring threads read
// neighbouring elements.
struct Share {
  int row, term, row_step, term_step;
};
BEVEL_HD Share share_of(bool terms_are_dense, int thread) {
  return terms_are_dense ? Share{thread / slab, thread % slab, threads / slab, 0}
                         : Share{thread % side, thread / side, 0, threads / side};
}

inline constexpr int share_size = slab * side / threads;

// A thread's elements of an operand from row `i0` and term `k0` on, and 0 beyond its sizes. Offsets are small: neither
// size exceeds 512.
BEVEL_HD void gather(const float* from, std::int32_t row_stride, std::int32_t term_stride, std::int32_t rows,
                     std::int32_t terms, std::int32_t i0, std::int32_t k0, const Share& share,
                     float (&values)[share_size]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int n = 0; n < share_size; ++n) {
    const std::int32_t i = i0 + share.row + n * share.row_step;
    const std::int32_t k = k0 + share.term + n * share.term_step;
    values[n] = i < rows && k < terms ? from[i * row_stride + k * term_stride] : 0.0f;
  }
}

BEVEL_HD void scatter(const float (&values)[share_size], const Share& share, float (*to)[pitch]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int n = 0; n < share_size; ++n) to[share.term + n * share.term_step][share.row + n * share.row_step] = values[n];
}

// Brings terms k0 .. k0 + slab. All of a thread's elements are on their way before the first is put down: one after the
// other they took longer than the rest of the kernel.
BEVEL_HD void load(const SmallProduct& p, Place at, std::int32_t k0, int thread, Shared& shared) {
  const Share share_a = share_of(p.a_k == 1, thread);
  const Share share_b = share_of(p.b_k == 1, thread);
  float a[share_size], b[share_size];
  gather(p.a, p.a_i, p.a_k, p.i_size, p.k_size, at.i0, k0, share_a, a);
  gather(p.b, p.b_j, p.b_k, p.j_size, p.k_size, at.j0, k0, share_b, b);
  if (p.mask) {
    float mask[share_size];
    gather(p.mask, p.a_i, p.a_k, p.i_size, p.k_size, at.i0, k0, share_a, mask);
    for (int n = 0; n < share_size; ++n) a[n] *= mask[n] <= 0 ? 0.0f : 1.0f;
  }
  scatter(a, share_a, shared.a);
  scatter(b, share_b, shared.b);
}

BEVEL_HD void multiply(int thread, const Shared& shared, Sums& sums) {
  const int team = thread / 64;
  const int y = thread % 64 / 8 * 2;
  const int x = thread % 8 * 2;
#if defined(__CUDA_ARCH__)
#pragma unroll 8
#endif
  for (int k = team * (slab / 4); k < (team + 1) * (slab / 4); ++k) {
    const float a0 = shared.a[k][y];
    const float a1 = shared.a[k][y + 1];
    const float b0 = shared.b[k][x];
    const float b1 = shared.b[k][x + 1];
    sums.c[0][0] += a0 * b0;
    sums.c[0][1] += a0 * b1;
    sums.c[1][0] += a1 * b0;
    sums.c[1][1] += a1 * b1;
    sums.a[0] += a0;
    sums.a[1] += a1;
  }
}

BEVEL_HD void leave(int thread, const Sums& sums, Shared& shared) {
  const int team = thread / 64;
  const int y = thread % 64 / 8 * 2;
  const int x = thread % 8 * 2;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) shared.parts[team][(y + i) * side + x + j] = sums.c[i][j];
  if (x > 0) return;
  shared.sums[team][y] = sums.a[0];
  shared.sums[team][y + 1] = sums.a[1];
}

BEVEL_HD void store(const SmallProduct& p, Place at, int thread, const Shared& shared) {
  const std::int32_t i = at.i0 + thread / side;
  const std::int32_t j = at.j0 + thread % side;
  if (i < p.i_size && j < p.j_size) {
    float value =
        (shared.parts[0][thread] + shared.parts[1][thread]) + (shared.parts[2][thread] + shared.parts[3][thread]);
    if (p.bias) value += p.bias[j];
    if (p.relu && value <= 0) value = 0;
    p.c[std::int64_t{i} * p.j_size + j] = value;
  }
  if (p.sums && at.j0 == 0 && thread < side && at.i0 + thread < p.i_size)
    p.sums[at.i0 + thread] =
        (shared.sums[0][thread] + shared.sums[1][thread]) + (shared.sums[2][thread] + shared.sums[3][thread]);
}

}  // namespace small

}  // namespace bevel::detail
