// One pass over parameters, gradients and what an optimiser keeps for them, by a rule. Users have no need of it.
#pragma once

#include <bevel/core/device.h>
#include <bevel/core/hostdevice.h>
#include <bevel/nn/detail/chunks.h>
#include <bevel/nn/detail/factor.h>
#include <bevel/ops/kernel/math.h>

#include <cmath>
#include <cstdint>
#include <span>

namespace bevel::optim::detail {

// How far a parameter is, on its device: updates so far, and two numbers that its rule needs in the next one. The pass
// that updates a parameter moves them on, so a replay of a captured step needs nothing from the host.
struct Progress {
  std::int64_t steps = 0;
  double a = 0;
  double b = 0;
};

// One parameter: where its elements, its gradient and what is kept for it lie.
template <class Rule>
struct Slot {
  using T = typename Rule::value;

  T* parameter = nullptr;
  const T* gradient = nullptr;
  T* moments[2] = {nullptr, nullptr};
  T* average = nullptr;  // moving average of the parameter, or null
  void* half = nullptr;  // half copy of the parameter, or null
  bool half_is_bf16 = false;
  Progress* progress = nullptr;
  const double* rate = nullptr;  // learning rate
  std::int64_t size = 0;
  Rule rule = {};

  bool operator==(const Slot&) const = default;
};

// What is the same for all parameters of a pass.
struct UpdateOptions {
  bevel::detail::Factor factor = {};  // multiplies every gradient; 0 leaves everything as it is
  double average_rest = 0;            // 1 - decay of the moving average
  unsigned* arrived = nullptr;        // see last_block; CUDA only
};

// base^exponent for exponent >= 0: the same bits on host and device.
BEVEL_HD double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = math::multiply(result, base);
    base = math::multiply(base, base);
  }
  return result;
}

// Rules. `moments` is the number of those in use. after(steps) gives the progress of a parameter with so many updates;
// Numbers(rule, rate, progress) holds what is the same for all its elements in the next one; the rule's operator()
// changes one element and its moments.

// p -= lr * (g + decay * p)
template <class T>
struct PlainSgd {
  using value = T;
  static constexpr int moments = 0;
  T decay;
  bool operator==(const PlainSgd&) const = default;

  struct Numbers {
    T rate;
    BEVEL_HD Numbers(const PlainSgd&, double lr, const Progress&) : rate(static_cast<T>(lr)) {}
  };
  BEVEL_HD Progress after(std::int64_t steps) const { return {steps, 0, 0}; }
  BEVEL_HD void operator()(const Numbers& n, T& p, T g, T&, T&) const { p -= n.rate * (g + decay * p); }
};

// m = keep * m + add * g;  p -= lr * (nesterov ? g + momentum * m : m). keep and add are 0 and 1 in the first update of
// a parameter, which starts m from its gradient.
template <class T>
struct MomentumSgd {
  using value = T;
  static constexpr int moments = 1;
  T decay, momentum;
  double keep, add;
  bool nesterov;
  bool operator==(const MomentumSgd&) const = default;

  struct Numbers {
    T rate, keep, add;
    BEVEL_HD Numbers(const MomentumSgd&, double lr, const Progress& progress)
        : rate(static_cast<T>(lr)), keep(static_cast<T>(progress.a)), add(static_cast<T>(progress.b)) {}
  };
  BEVEL_HD Progress after(std::int64_t steps) const { return {steps, steps == 0 ? 0 : keep, steps == 0 ? 1 : add}; }
  BEVEL_HD void operator()(const Numbers& n, T& p, T g, T& m, T&) const {
    g += decay * p;
    m = n.keep * m + n.add * g;
    p -= n.rate * (nesterov ? g + momentum * m : m);
  }
};

// See adam.h. With t the number of updates, this one included, progress holds 1 - beta1^t and 1 / sqrt(1 - beta2^t).
template <class T>
struct AdamRule {
  using value = T;
  static constexpr int moments = 2;
  double beta1, beta2;
  double weight_decay;
  T eps;
  bool decoupled;  // AdamW
  bool operator==(const AdamRule&) const = default;

  struct Numbers {
    T beta1, rest1, beta2, rest2, step, root, decay, shrink;
    BEVEL_HD Numbers(const AdamRule& rule, double lr, const Progress& progress)
        : beta1(static_cast<T>(rule.beta1)),
          rest1(static_cast<T>(1 - rule.beta1)),
          beta2(static_cast<T>(rule.beta2)),
          rest2(static_cast<T>(1 - rule.beta2)),
          step(static_cast<T>(math::divide(lr, progress.a))),
          root(static_cast<T>(progress.b)),
          decay(rule.decoupled ? T(0) : static_cast<T>(rule.weight_decay)),
          shrink(rule.decoupled ? static_cast<T>(math::subtract(1.0, math::multiply(lr, rule.weight_decay))) : T(1)) {}
  };
  BEVEL_HD Progress after(std::int64_t steps) const {
    const double rest1 = math::subtract(1.0, power(beta1, steps + 1));
    const double rest2 = math::subtract(1.0, power(beta2, steps + 1));
    return {steps, rest1, math::divide(1.0, math::sqrt(rest2))};
  }
  BEVEL_HD void operator()(const Numbers& n, T& p, T g, T& m, T& v) const {
    g += n.decay * p;
    m = n.beta1 * m + n.rest1 * g;
    v = n.beta2 * v + n.rest2 * (g * g);
    p = p * n.shrink - n.step * m / (std::sqrt(v) * n.root + eps);
  }
};

// See lion.h.
template <class T>
struct LionRule {
  using value = T;
  static constexpr int moments = 1;
  double beta1, beta2, weight_decay;
  bool operator==(const LionRule&) const = default;

  struct Numbers {
    T beta1, rest1, beta2, rest2, rate, shrink;
    BEVEL_HD Numbers(const LionRule& rule, double lr, const Progress&)
        : beta1(static_cast<T>(rule.beta1)),
          rest1(static_cast<T>(1 - rule.beta1)),
          beta2(static_cast<T>(rule.beta2)),
          rest2(static_cast<T>(1 - rule.beta2)),
          rate(static_cast<T>(lr)),
          shrink(static_cast<T>(math::subtract(1.0, math::multiply(lr, rule.weight_decay)))) {}
  };
  BEVEL_HD Progress after(std::int64_t steps) const { return {steps, 0, 0}; }
  BEVEL_HD void operator()(const Numbers& n, T& p, T g, T& m, T&) const {
    const T direction = n.beta1 * m + n.rest1 * g;
    // NaN goes on into the parameter.
    const T sign = direction > 0 ? T(1) : direction < 0 ? T(-1) : direction;
    p = p * n.shrink - n.rate * sign;
    m = n.beta2 * m + n.rest2 * g;
  }
};

// Updates every slot, its average and its half copy, and moves its progress on.
template <class Rule>
void update(Cpu backend, std::span<const Slot<Rule>> slots, const UpdateOptions& options,
            bevel::detail::TableMemory& memory);
template <class Rule>
void update(Cuda backend, std::span<const Slot<Rule>> slots, const UpdateOptions& options,
            bevel::detail::TableMemory& memory);

// The element of the average, after the parameter has become `p`. The first update starts it.
template <class T>
BEVEL_HD T averaged(T average, T p, T rest, bool first) {
  return first ? p : average + rest * (p - average);
}

}  // namespace bevel::optim::detail
