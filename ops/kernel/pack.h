// Packs: neighbouring elements that move as one access, and the conversions between storage and compute types.
#pragma once

#include <bevel/core/dtype.h>
#include <bevel/core/hostdevice.h>

#include <algorithm>
#include <cstdint>

namespace bevel::kernel {

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T lane[N];
};

// Lanes for which the widest of the types fills 16 bytes, the widest access of a GPU.
template <class... T>
inline constexpr int pack_lanes = 16 / static_cast<int>(std::max({sizeof(T)...}));

template <int N, class T>
bool aligned_for_packs(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % (sizeof(T) * N) == 0;
}

// The half types are computed in float; every other type in itself.
template <class T>
BEVEL_HD compute_t<T> load(T stored) {
  return static_cast<compute_t<T>>(stored);
}
template <class T, class C>
BEVEL_HD T store(C computed) {
  return static_cast<T>(computed);
}

}  // namespace bevel::kernel
