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

// N neighbouring elements as compute values; where only `count` of them are there, the last one fills up.
template <int N, class T>
BEVEL_HD Pack<compute_t<T>, N> load_lanes(const T* data, std::int64_t count = N) {
  Pack<compute_t<T>, N> pack;
  for (int lane = 0; lane < N; ++lane) pack.lane[lane] = load(data[lane < count ? lane : count - 1]);
  return pack;
}

// For map_blocks: every element by itself, f(i) of its index.
template <int N, class F>
struct EachIndex {
  F f;
  BEVEL_HD auto operator()(std::int64_t block) const {
    Pack<decltype(f(std::int64_t{})), N> pack;
    for (int lane = 0; lane < N; ++lane) pack.lane[lane] = f(block * N + lane);
    return pack;
  }
};

}  // namespace bevel::kernel
