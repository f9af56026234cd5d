// Instruction sets on the CPU. A loop is compiled for the build's baseline (x86-64) and for x86-64-v3 (AVX2), and the
// better one that the processor has runs. Fused multiply-add stays off (-ffp-contract=off), so both give the same bits.
#pragma once

namespace bevel {

namespace detail {
#if defined(__x86_64__) && defined(__GNUC__)
inline bool has_x86_64_v3() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
  return has;
}

// AVX-512. For matrix products alone, which have arithmetic enough for it.
inline bool has_x86_64_v4() {
  static const bool has = has_x86_64_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  return has;
}

template <class Loop>
[[gnu::target("arch=x86-64-v3"), gnu::noinline]] void run_x86_64_v3(const Loop& loop) {
  loop();
}
#else
inline bool has_x86_64_v3() {
  return false;
}
inline bool has_x86_64_v4() {
  return false;
}
template <class Loop>
void run_x86_64_v3(const Loop& loop) {
  loop();
}
#endif
}  // namespace detail

// for_best_isa([&]() __attribute__((always_inline)) { loop }) runs the loop. Everything the loop calls must be
// always_inline too (BEVEL_HD is), or it stays code for the baseline.
template <class Loop>
void for_best_isa(const Loop& loop) {
  if (detail::has_x86_64_v3())
    detail::run_x86_64_v3(loop);
  else
    loop();
}

}  // namespace bevel
