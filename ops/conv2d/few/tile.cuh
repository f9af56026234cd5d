// Rows of pixels in shared memory and the matrix instructions on them, for convolutions with few channels.
#pragma once

#include <bevel/core/half.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace bevel::detail::few {

// The element types as the hardware names them; float stands for TF32.
using Bf16 = __nv_bfloat16;
using F16 = __half;

// Older devices lack the instructions; the kernels are then empty shells that nobody launches.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr bool has_instructions = false;
#else
inline constexpr bool has_instructions = true;
#endif

inline constexpr int threads = 256;
inline constexpr int slice = 32;  // channels that a block treats at a time

__device__ inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
// 16 bytes from global to shared memory, without waiting.
__device__ inline void copy_async(void* to, const void* from) {
  if constexpr (has_instructions)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
}
__device__ inline void commit_copies() {
  if constexpr (has_instructions) asm volatile("cp.async.commit_group;");
}
// Until at most `n` of the groups committed last are under way.
template <int n>
__device__ inline void wait_copies() {
  if constexpr (has_instructions) asm volatile("cp.async.wait_group %0;" ::"n"(n));
}

// Four 8x8 matrices of two-byte elements; the address is that of row lane % 8 of matrix lane / 8.
__device__ inline void load_matrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ inline void load_transposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

// c += a b with c [16, 8], a [16, k], b [k, 8]; k = 16 for half types, 8 for TF32.
__device__ inline void multiply(Bf16, float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (has_instructions)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply(F16, float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (has_instructions)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply(float, float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (has_instructions)
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The matrix units cut the low 13 bits of an f32 off, which makes every product too small. Here the operand is first
// made larger by 0.7 times half of what those bits are worth, which leaves no bias: on average that is what rounding to
// the nearest adds. Numbers of ten bits of mantissa stay what they are, as do infinities and NaN. One multiplication
// takes half the time of the integer instructions that round exactly, and the error grows by 6 % only.
__device__ inline unsigned rounded(float value) {
  return __float_as_uint(value * (1.0F + 0.7F / 2048.0F));
}

// Two elements of a half type in one register, the first in the low half.
template <class T>
__device__ inline unsigned pair_of(const T* low, const T* high) {
  return *reinterpret_cast<const unsigned short*>(low) |
         static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(high)) << 16;
}

// The same of floats, rounded.
__device__ inline unsigned rounded_pair(Bf16, float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ inline unsigned rounded_pair(F16, float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

// Eight adjacent channels of a pixel from row m (0: lane / 4, 1: eight below) of four tiles of a product whose columns
// are permuted to that end.
template <class T>
__device__ inline void store_channels(T* to, const float (&c)[4][4], int m) {
  alignas(16) T values[8];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    values[2 * j] = T(m == 0 ? c[j][0] : c[j][2]);
    values[2 * j + 1] = T(m == 0 ? c[j][1] : c[j][3]);
  }
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i)
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(values)[i];
}

// The sums of a thread's eight channels, `first` being the first of them, before anything is added: the bias or, where
// it is null, 0.
template <class T>
__device__ inline void start_sums(float (&c)[4][4], const T* bias, int first) {
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) c[j][e] = bias ? static_cast<float>(bias[first + 2 * j + e % 2]) : 0.0F;
}

// How a slice of 32 channels of a pixel lies in shared memory. Half types: 64 bytes, whose 16-byte chunks are permuted
// so that a matrix load of eight pixels meets no bank twice. TF32: rows of `pitch` elements, chosen for the same end.
template <class T, int pitch>
struct PixelLayout {
  static constexpr bool is_half = sizeof(T) == 2;
  static constexpr int bytes = is_half ? 64 : 4 * pitch;
  static constexpr int chunks = is_half ? 4 : 8;

  static __device__ int chunk(int pixel, int c) {
    return is_half ? pixel * 64 + ((c ^ ((pixel >> 1) & 3)) << 4) : pixel * bytes + c * 16;
  }

  // A row of `width` pixels, `channels` elements apart, to shared memory from pixel `first` on.
  static __device__ void load_row(char* to, const T* from, int width, int channels, int first) {
    for (int i = threadIdx.x; i < width * chunks; i += threads) {
      const int pixel = i / chunks;
      const int c = i % chunks;
      copy_async(to + chunk(pixel + first, c),
                 from + static_cast<std::int64_t>(pixel) * channels + c * (16 / sizeof(T)));
    }
  }
};

// The pictures of one slice of a pass over output rows; rows of all pictures are counted through.
struct Rows {
  int count;           // output rows of all pictures
  int height;          // output rows of a picture
  int width;           // output pixels in a row
  int rows_per_block;  // a multiple of the rows of a stage
};

}  // namespace bevel::detail::few
