// Elements kept in registers as they came from memory: half types two to a 32-bit word, which the compiler would
// otherwise spread over one register an element.
#pragma once

#include <bevel/core/half.h>

#include <type_traits>

namespace bevel::evo {

__device__ inline unsigned two_bfloat16(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  return bfloat16(low).bits | static_cast<unsigned>(bfloat16(high).bits) << 16;
#endif
}

__device__ inline unsigned two_float16(float low, float high) {
  return float16(low).bits | static_cast<unsigned>(float16(high).bits) << 16;
}

// P elements of T, float or a half type: a power of two of them, up to 16 bytes.
template <class T, int P>
struct Held {
  static constexpr int bytes = P * static_cast<int>(sizeof(T));
  static constexpr int words = bytes < 4 ? 1 : bytes / 4;
  unsigned word[words];

  __device__ void load(const T* from) {
    if constexpr (bytes == 16)
      *reinterpret_cast<uint4*>(word) = *reinterpret_cast<const uint4*>(from);
    else if constexpr (bytes == 8)
      *reinterpret_cast<uint2*>(word) = *reinterpret_cast<const uint2*>(from);
    else if constexpr (bytes == 4)
      word[0] = *reinterpret_cast<const unsigned*>(from);
    else
      word[0] = *reinterpret_cast<const unsigned short*>(from);
  }

  __device__ void store(T* to) const {
    if constexpr (bytes == 16)
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(word);
    else if constexpr (bytes == 8)
      *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(word);
    else if constexpr (bytes == 4)
      *reinterpret_cast<unsigned*>(to) = word[0];
    else
      *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(word[0]);
  }

  // The same for what nobody will read soon: it does not drive other things out of the caches.
  __device__ void store_streaming(T* to) const {
    if constexpr (bytes == 16)
      __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(word));
    else if constexpr (bytes == 8)
      __stcs(reinterpret_cast<uint2*>(to), *reinterpret_cast<const uint2*>(word));
    else if constexpr (bytes == 4)
      __stcs(reinterpret_cast<unsigned*>(to), word[0]);
    else
      *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(word[0]);
  }

  __device__ float operator[](int p) const {
    if constexpr (std::is_same_v<T, float>) {
      return __uint_as_float(word[p]);
    } else if constexpr (std::is_same_v<T, bfloat16>) {
      return __uint_as_float(p % 2 == 0 ? word[p / 2] << 16 : word[p / 2] & 0xffff0000u);
    } else {
      const unsigned bits = p % 2 == 0 ? word[p / 2] & 0xffffu : word[p / 2] >> 16;
      return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
    }
  }

  __device__ void set(const float (&value)[P]) {
#pragma unroll
    for (int w = 0; w < words; ++w) {
      if constexpr (std::is_same_v<T, float>)
        word[w] = __float_as_uint(value[w]);
      else if constexpr (std::is_same_v<T, bfloat16>)
        word[w] = two_bfloat16(value[P == 1 ? 0 : 2 * w], P == 1 ? 0.0f : value[P == 1 ? 0 : 2 * w + 1]);
      else
        word[w] = two_float16(value[P == 1 ? 0 : 2 * w], P == 1 ? 0.0f : value[P == 1 ? 0 : 2 * w + 1]);
    }
  }
};

}  // namespace bevel::evo
