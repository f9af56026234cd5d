// Kernels of random.h and dropout.h: functors for kernel::map_blocks, block b taking counter offset + b.
#pragma once

#include <bevel/core/philox.h>
#include <bevel/core/random.h>
#include <bevel/core/tensor.h>
#include <bevel/ops/kernel/number.h>
#include <bevel/ops/kernel/pack.h>

#include <bit>
#include <cstdint>

namespace bevel::pointwise {

BEVEL_HD Philox4 words_of_block(const RandomState& state, std::int64_t block) {
  const std::uint64_t counter = state.offset + static_cast<std::uint64_t>(block);
  if (state.base) return philox(state.base->seed, state.base->offset + counter);
  return philox(state.seed, counter);
}

template <class T>
struct Uniform;

template <>
struct Uniform<float> {
  static constexpr int lanes = 4;
  RandomState state;
  BEVEL_HD kernel::Pack<float, 4> operator()(std::int64_t block) const {
    const Philox4 p = words_of_block(state, block);
    return {{uniform_float(p.word[0]), uniform_float(p.word[1]), uniform_float(p.word[2]), uniform_float(p.word[3])}};
  }
};

template <>
struct Uniform<double> {
  static constexpr int lanes = 2;
  RandomState state;
  BEVEL_HD kernel::Pack<double, 2> operator()(std::int64_t block) const {
    const Philox4 p = words_of_block(state, block);
    return {{uniform_double(p.word[0], p.word[1]), uniform_double(p.word[2], p.word[3])}};
  }
};

// The functions below are made of sums, products, quotients and roots alone, each rounded once on either device, so
// that host and device give the same bits. Errors stay below 1e-15 of the largest term.

BEVEL_HD std::int64_t double_bits(double x) {
#if defined(__CUDA_ARCH__)
  return __double_as_longlong(x);
#else
  return std::bit_cast<std::int64_t>(x);
#endif
}
BEVEL_HD double bits_double(std::int64_t bits) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(bits);
#else
  return std::bit_cast<double>(bits);
#endif
}

// log u for normal u > 0: u = 2^e m with m in [sqrt(1/2), sqrt(2)), and log m = 2 atanh((m - 1) / (m + 1)).
BEVEL_HD double portable_log(double u) {
  using N = Number<double>;
  constexpr std::int64_t root_half = 0x3fe6a09e667f3bcd;
  const std::int64_t bits = double_bits(u);
  const std::int64_t exponent = (bits - root_half) >> 52;
  const N m = bits_double(bits - exponent * (std::int64_t{1} << 52));
  const N s = (m - N(1)) / (m + N(1));
  const N z = s * s;
  N series = N(1.0 / 23);
  for (int k = 21; k >= 1; k -= 2) series = series * z + N(1.0 / k);
  return (N(exponent) * N(0.69314718055994531) + N(2) * s * series).value;
}

struct SineCosine {
  double sine;
  double cosine;
};

// Of 2 pi t for 0 <= t < 1: an eighth of a turn at most by Taylor series, then turned by quarters.
BEVEL_HD SineCosine portable_sine_cosine(double t) {
  using N = Number<double>;
  const int quarter = static_cast<int>((N(t) * N(4) + N(0.5)).value);
  const N x = (N(t) * N(4) - N(quarter)) * N(1.5707963267948966);
  const N z = -(x * x);
  N sine = 1;
  for (int k = 16; k >= 2; k -= 2) sine = N(1) + sine * z * N(1.0 / (k * (k + 1)));
  sine = sine * x;
  N cosine = 1;
  for (int k = 17; k >= 1; k -= 2) cosine = N(1) + cosine * z * N(1.0 / (k * (k + 1)));
  const bool swap = quarter & 1;
  const N a = select(swap, cosine, sine);
  const N b = select(swap, sine, cosine);
  return {select(quarter & 2, -a, a).value, select((quarter + 1) & 2, -b, b).value};
}

// Two normal numbers of two uniform ones, 0 < u <= 1 and 0 <= t < 1.
BEVEL_HD kernel::Pack<double, 2> box_muller(double u, double t) {
  const double radius = math::sqrt(math::multiply(-2.0, portable_log(u)));
  const SineCosine direction = portable_sine_cosine(t);
  return {{math::multiply(radius, direction.cosine), math::multiply(radius, direction.sine)}};
}

template <class T>
struct Normal;

template <>
struct Normal<float> {
  static constexpr int lanes = 4;
  RandomState state;
  BEVEL_HD kernel::Pack<float, 4> operator()(std::int64_t block) const {
    const Philox4 p = words_of_block(state, block);
    const auto first = box_muller((static_cast<double>(p.word[0]) + 1) * 0x1p-32, p.word[1] * 0x1p-32);
    const auto second = box_muller((static_cast<double>(p.word[2]) + 1) * 0x1p-32, p.word[3] * 0x1p-32);
    return {{static_cast<float>(first.lane[0]), static_cast<float>(first.lane[1]), static_cast<float>(second.lane[0]),
             static_cast<float>(second.lane[1])}};
  }
};

template <>
struct Normal<double> {
  static constexpr int lanes = 2;
  RandomState state;
  BEVEL_HD kernel::Pack<double, 2> operator()(std::int64_t block) const {
    const Philox4 p = words_of_block(state, block);
    return box_muller(uniform_double(p.word[0], p.word[1]) + 0x1p-53, uniform_double(p.word[2], p.word[3]));
  }
};

// The bias of the remainder is below range / 2^64.
struct Integers {
  RandomState state;
  std::int64_t low;
  std::uint64_t range;
  BEVEL_HD kernel::Pack<std::int64_t, 2> operator()(std::int64_t block) const {
    const Philox4 p = words_of_block(state, block);
    return {{number(p.word[0], p.word[1]), number(p.word[2], p.word[3])}};
  }
  BEVEL_HD std::int64_t number(std::uint32_t high_word, std::uint32_t low_word) const {
    const std::uint64_t word = (std::uint64_t{high_word} << 32) | low_word;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + word % range);
  }
};

// Whether the word of an element is below a threshold; 2^32 means always.
struct Below {
  RandomState state;
  std::uint64_t threshold;
  BEVEL_HD kernel::Pack<float, 4> operator()(std::int64_t block) const {
    const Philox4 p = words_of_block(state, block);
    kernel::Pack<float, 4> pack;
    for (int lane = 0; lane < 4; ++lane) pack.lane[lane] = p.word[lane] < threshold ? 1.0f : 0.0f;
    return pack;
  }
};

template <class T>
struct Dropout {
  Below dropped;
  T scale;
  BEVEL_HD kernel::Pack<T, 4> operator()(std::int64_t block, const kernel::Pack<T, 4>& x) const {
    kernel::Pack<T, 4> result;
    const kernel::Pack<float, 4> drop = dropped(block);
    for (int lane = 0; lane < 4; ++lane) result.lane[lane] = drop.lane[lane] != 0 ? T(0) : x.lane[lane] * scale;
    return result;
  }
};

template <class Backend>
void rand_kernel(Backend backend, RandomState state, const Tensor& out);
template <class Backend>
void randn_kernel(Backend backend, RandomState state, const Tensor& out);
template <class Backend>
void randint_kernel(Backend backend, RandomState state, std::int64_t low, std::uint64_t range, const Tensor& out);
template <class Backend>
void bernoulli_kernel(Backend backend, RandomState state, std::uint64_t threshold, const Tensor& out);
template <class Backend>
void dropout_kernel(Backend backend, RandomState state, std::uint64_t threshold, double scale, const Tensor& out,
                    const Tensor& x);

// The threshold for a word to be below it with probability p.
inline std::uint64_t threshold_of(double p) {
  return static_cast<std::uint64_t>(p * 0x1p32);
}

}  // namespace bevel::pointwise
