// What gradient clipping asks of a backend.
#pragma once

#include <bevel/core/device.h>
#include <bevel/nn/detail/chunks.h>
#include <bevel/nn/detail/factor.h>

#include <cstdint>
#include <span>

namespace bevel::nn::detail {

// One gradient, f32 or f64.
struct Gradient {
  void* data = nullptr;
  std::int64_t size = 0;
  bool is_f64 = false;

  bool operator==(const Gradient&) const = default;
};

// norm = factor * sqrt(sum of all squares), scale = factor * min(1, max_norm / (norm + 1e-6)).
struct NormRequest {
  double max_norm = 0;
  bevel::detail::Factor factor = {};
  double* norm = nullptr;
  double* scale = nullptr;
  unsigned* arrived = nullptr;  // see last_block; CUDA only
};

BEVEL_HD double clip_scale(double norm, double max_norm, double factor) {
  const double clip = max_norm / (norm + 1e-6);
  return clip < 1 || clip != clip ? clip * factor : factor;
}

void gradient_norm(Cpu backend, std::span<const Gradient> gradients, const NormRequest& request,
                   bevel::detail::TableMemory& memory);
void gradient_norm(Cuda backend, std::span<const Gradient> gradients, const NormRequest& request,
                   bevel::detail::TableMemory& memory);

// Multiplies by *scale, a number on the device; nothing is written where it is 1.
void scale_gradients(Cpu backend, std::span<const Gradient> gradients, const double* scale,
                     bevel::detail::TableMemory& memory);
void scale_gradients(Cuda backend, std::span<const Gradient> gradients, const double* scale,
                     bevel::detail::TableMemory& memory);

void clamp_gradients(Cpu backend, std::span<const Gradient> gradients, double limit,
                     bevel::detail::TableMemory& memory);
void clamp_gradients(Cuda backend, std::span<const Gradient> gradients, double limit,
                     bevel::detail::TableMemory& memory);

}  // namespace bevel::nn::detail
