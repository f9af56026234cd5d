// Kernel-level EvoNorm (bevel/ops/raw.h): forward and backward on plain arrays.
//
//   bevel::raw::EvoNormProblem problem;
//   problem.variant = bevel::EvoNorm::S0;  ...
//   const auto memory = bevel::raw::evonorm_memory(where, problem);   // statistics and workspaces, in bytes
//   bevel::raw::evonorm_forward(where, problem, {.x = x, .gamma = gamma, ..., .y = y, .statistics = kept});
//   bevel::raw::evonorm_backward(where, problem, {.x = x, ..., .statistics = kept, .dy = dy, .dx = dx, ...});
//
// The formulas, and what running_var does, stand in evonorm.h.
#pragma once

#include <bevel/core/device.h>
#include <bevel/core/dtype.h>
#include <bevel/ops/evonorm/variant.h>
#include <bevel/ops/layout.h>
#include <bevel/ops/raw.h>

#include <cstddef>
#include <cstdint>

namespace bevel::raw {

struct EvoNormProblem {
  EvoNorm variant = EvoNorm::S0;
  Layout layout = Layout::nhwc;
  Dtype dtype = f32;  // of x, y, dy and dx; parameters, their gradients and running_var are of its compute type
  std::int64_t samples = 0;
  std::int64_t pixels = 0;  // height times width
  std::int64_t channels = 0;
  std::int64_t groups = 1;  // S variants: divides the channels
  double eps = 1e-5;
  double momentum = 0.1;
  bool training = true;
  bool affine = false;  // without the nonlinearity: y = x * gamma + beta

  // Whether the formula is the gate of S0, S1 and S2; else it is the maximum of B0, B1 and B2, or affine.
  bool gate() const { return !affine && !has_batch_term(variant); }
  // Whether instance statistics are root mean squares about 0 in place of standard deviations.
  bool about_zero() const { return variant == EvoNorm::B1 || variant == EvoNorm::B2 || variant == EvoNorm::S2; }
  // Statistics of one sample: per group for the gate, per channel for the maximum.
  std::int64_t slices() const { return gate() ? groups : channels; }
};

struct EvoNormForward {
  const void* x = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
  const void* v = nullptr;      // null for a variant without v
  void* running_var = nullptr;  // B variants: null, or updated in training; needed in evaluation
  void* y = nullptr;
  void* statistics = nullptr;  // written: what backward wants to know again
};

struct EvoNormBackward {
  const void* x = nullptr;
  const void* gamma = nullptr;
  const void* v = nullptr;
  const void* statistics = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;  // null where it is not wanted
  void* dgamma = nullptr;
  void* dbeta = nullptr;
  void* dv = nullptr;  // null for a variant without v
};

// Bytes. Statistics are aligned to 8 bytes, and their form belongs to the device that wrote them. Workspaces need no
// particular content; the CPU needs none.
struct EvoNormMemory {
  std::size_t statistics = 0;
  std::size_t forward_workspace = 0;
  std::size_t backward_workspace = 0;
};

EvoNormMemory evonorm_memory(Cpu, const EvoNormProblem& problem);
EvoNormMemory evonorm_memory(const OnStream& where, const EvoNormProblem& problem);

// Error: sizes below 1, a dtype that is not floating, groups that do not divide the channels, pointers that are
// missing, a workspace too small; in a build without CUDA, any call on a stream. Backward takes the problem of forward.
void evonorm_forward(Cpu, const EvoNormProblem& problem, const EvoNormForward& arrays);
void evonorm_forward(const OnStream& where, const EvoNormProblem& problem, const EvoNormForward& arrays);
void evonorm_backward(Cpu, const EvoNormProblem& problem, const EvoNormBackward& arrays);
void evonorm_backward(const OnStream& where, const EvoNormProblem& problem, const EvoNormBackward& arrays);

}  // namespace bevel::raw
