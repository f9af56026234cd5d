// One pass over parameters, gradients and moments by a rule. Shared by the optimisers; users have no need of it.
#pragma once

#include <bevel/core/device.h>
#include <bevel/core/hostdevice.h>

#include <cmath>
#include <cstdint>
#include <span>

namespace bevel::optim::detail {

// One parameter: where its elements, gradients and moments lie, and what the rule needs to know about it alone.
template <class T>
struct Slot {
  T* parameter = nullptr;
  const T* gradient = nullptr;
  T* moments[2] = {nullptr, nullptr};
  std::int64_t size = 0;
  T scalars[2] = {0, 0};
};

// Rules: operator() changes one element and its moments. `moments` is the number of those in use.

// p -= lr * (g + decay * p)
template <class T>
struct PlainSgd {
  using value = T;
  static constexpr int moments = 0;
  T lr, decay;

  BEVEL_HD void operator()(T& p, T g, T&, T&, const T*) const { p -= lr * (g + decay * p); }
};

// m = keep * m + add * g;  p -= lr * (nesterov ? g + momentum * m : m). The scalars are keep and add: 0 and 1 in the
// first step of a parameter, which starts m from its gradient.
template <class T>
struct MomentumSgd {
  using value = T;
  static constexpr int moments = 1;
  T lr, decay, momentum;
  bool nesterov;

  BEVEL_HD void operator()(T& p, T g, T& m, T&, const T* scalars) const {
    g += decay * p;
    m = scalars[0] * m + scalars[1] * g;
    p -= lr * (nesterov ? g + momentum * m : m);
  }
};

// See adam.h. The scalars are lr / (1 - beta1^t) and 1 / sqrt(1 - beta2^t).
template <class T>
struct AdamRule {
  using value = T;
  static constexpr int moments = 2;
  T beta1, rest1;  // rest = 1 - beta, rounded once
  T beta2, rest2;
  T eps;
  T decay;   // added to the gradient (Adam)
  T shrink;  // factor of the parameter, 1 - lr * weight_decay (AdamW)

  BEVEL_HD void operator()(T& p, T g, T& m, T& v, const T* scalars) const {
    g += decay * p;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * (g * g);
    p = p * shrink - scalars[0] * m / (std::sqrt(v) * scalars[1] + eps);
  }
};

template <class Rule>
void update(Cpu backend, std::span<const Slot<typename Rule::value>> slots, const Rule& rule);
template <class Rule>
void update(Cuda backend, std::span<const Slot<typename Rule::value>> slots, const Rule& rule);

}  // namespace bevel::optim::detail
