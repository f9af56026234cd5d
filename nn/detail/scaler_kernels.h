// Kernels of gradient_scaler.h.
#pragma once

#include <bevel/core/hostdevice.h>
#include <bevel/core/tensor.h>

#include <array>
#include <cstdint>
#include <span>

namespace bevel::nn::detail {

struct ScalerRule {
  float growth, backoff;
  std::int64_t interval;
};

// Sets counts[0] to 1 if an element of a gradient (f32 or f64) is infinite or NaN; else leaves it.
void find_not_finite(Cpu, std::span<const Tensor> gradients, const Tensor& counts);
void find_not_finite(Cuda backend, std::span<const Tensor> gradients, const Tensor& counts);

// factor = 0 if counts[0] is set, else 1 / scale; then scale and counts for the next step.
void update_scale(Cpu, const ScalerRule& rule, const Tensor& scale, const Tensor& factor, const Tensor& counts);
void update_scale(Cuda backend, const ScalerRule& rule, const Tensor& scale, const Tensor& factor,
                  const Tensor& counts);

BEVEL_HD void apply_rule(const ScalerRule& rule, float& scale, float& factor, std::int64_t* counts) {
  const bool is_void = counts[0] != 0;
  factor = is_void ? 0.0F : 1.0F / scale;
  counts[0] = 0;
  if (is_void) {
    scale *= rule.backoff;
    counts[1] = 0;
    ++counts[2];
  } else if (++counts[1] == rule.interval) {
    // A scale that would be infinite stays.
    const float larger = scale * rule.growth;
    if (larger <= 3.0e38F) scale = larger;
    counts[1] = 0;
  }
}

}  // namespace bevel::nn::detail
