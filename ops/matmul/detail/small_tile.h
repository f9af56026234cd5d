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

BEVEL_HD float element_of_a(const SmallProduct& p, std::int32_t i, std::int32_t k) {
  if (i >= p.i_size || k >= p.k_size) return 0;
  const std::int64_t at = std::int64_t{i} * p.a_i + std::int64_t{k} * p.a_k;
  const float value = p.a[at];
  return p.mask ? value * (p.mask[at] <= 0 ? 0.0f : 1.0f) : value;
}

BEVEL_HD float element_of_b(const SmallProduct& p, std::int32_t k, std::int32_t j) {
  if (j >= p.j_size || k >= p.k_size) return 0;
  return p.b[std::int64_t{k} * p.b_k + std::int64_t{j} * p.b_j];
}

// Brings terms k0 .. k0 + slab; neighbouring threads read neighbouring elements.
BEVEL_HD void load(const SmallProduct& p, Place at, std::int32_t k0, int thread, Shared& shared) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int n = 0; n < slab * side / threads; ++n) {
    const int e = n * threads + thread;
    const int a_i = p.a_k == 1 ? e / slab : e % side;
    const int a_k = p.a_k == 1 ? e % slab : e / side;
    shared.a[a_k][a_i] = element_of_a(p, at.i0 + a_i, k0 + a_k);
    const int b_j = p.b_k == 1 ? e / slab : e % side;
    const int b_k = p.b_k == 1 ? e % slab : e / side;
    shared.b[b_k][b_j] = element_of_b(p, k0 + b_k, at.j0 + b_j);
  }
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
