// Which packs the two-pass kernels on CUDA move pictures by.
#pragma once

#include <bevel/ops/evonorm/detail/problem.h>

#include <cstdint>
#include <initializer_list>

namespace bevel::evo {

// Bytes, at most 16, by which the addresses of all pictures are divisible.
inline std::int64_t alignment(std::initializer_list<Array> pictures) {
  std::int64_t bytes = 16;
  for (const Array& picture : pictures)
    while (picture.defined() &&
           reinterpret_cast<std::uintptr_t>(picture.raw()) % static_cast<std::uintptr_t>(bytes) != 0)
      bytes /= 2;
  return bytes;
}

// Calls f.operator()<T, P, K>() with the type of the pictures, the elements of a pack and the channels of a thread. A
// pack has as many elements as fill 16 bytes where sizes and addresses allow, or 8 of the half types; else 1. Half
// types are 4 a pack in NHWC, so that a thread has no more channels than its registers can do with.
template <class F>
void visit_packs(const Problem& p, std::initializer_list<Array> pictures, const F& f) {
  const bool nhwc = p.layout == Layout::nhwc;
  const std::int64_t inner = nhwc ? p.channels : p.pixels, bytes = alignment(pictures);
  visit_floating(p.dtype, "evonorm", [&]<class T>() {
    constexpr int full = 16 / static_cast<int>(sizeof(T)), fewer = full == 8 ? 4 : full;
    const auto fits = [&](int pack) { return inner % pack == 0 && bytes % (pack * size_of(p.dtype)) == 0; };
    if (nhwc && fits(fewer)) return f.template operator()<T, fewer, fewer>();
    if (!nhwc && fits(full)) return f.template operator()<T, full, 1>();
    if constexpr (fewer != full) {
      if (!nhwc && fits(fewer)) return f.template operator()<T, fewer, 1>();
    }
    f.template operator()<T, 1, 1>();
  });
}

}  // namespace bevel::evo
