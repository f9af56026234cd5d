// What the EvoNorm kernels of both devices are told, and how they are called.
//
// Six variants are two formulas. With the coefficients below, which belong to a channel or to a channel of a sample,
//   gate (S0, S1, S2):  y = x * sigmoid(v * x) * scale + beta       v = 1 for S1, S2; scale = gamma * rstd
//   maximum (B0-B2):    y = x / max(b, a * x + i) * gamma + beta    b the batch's, i the sample's standard deviation;
//                                                                   a = v (B0), i (B1), -1 (B2)
// and the affine case without nonlinearity is the maximum with a = 0, i = 0, b = 1.
#pragma once

#include <bevel/ops/evonorm/raw.h>

namespace bevel::evo {

using Problem = raw::EvoNormProblem;

// A place in memory, or none.
class Array {
 public:
  Array() = default;
  Array(const void* data) : data_(const_cast<void*>(data)) {}

  bool defined() const { return data_ != nullptr; }
  void* raw() const { return data_; }
  template <class T>
  T* data() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

// The small statistics kept for backward, in a form known to the backend alone.
struct Statistics {
  Array slice{};  // one sample's, per group or channel
  Array batch{};  // per channel; there for the maximum only
};

struct ForwardArguments {
  Array x{}, gamma{}, beta{}, v{}, running_var{};
  Array y{};
  Statistics statistics{};
};

struct BackwardArguments {
  Array x{}, gamma{}, v{};
  Statistics statistics{};
  Array dy{};
  Array dx{};                     // undefined where it is not wanted
  Array dgamma{}, dbeta{}, dv{};  // always written; dv is undefined for a variant without v
};

// The kernel-level calls, for the driver: on CUDA, on the current stream.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};
inline raw::EvoNormMemory memory(Cpu backend, const Problem& problem) {
  return raw::evonorm_memory(backend, problem);
}
inline void forward(Cpu backend, const Problem& problem, const raw::EvoNormForward& arrays, const Workspace&) {
  raw::evonorm_forward(backend, problem, arrays);
}
inline void backward(Cpu backend, const Problem& problem, const raw::EvoNormBackward& arrays, const Workspace&) {
  raw::evonorm_backward(backend, problem, arrays);
}
raw::EvoNormMemory memory(Cuda backend, const Problem& problem);
void forward(Cuda backend, const Problem& problem, const raw::EvoNormForward& arrays, const Workspace& workspace);
void backward(Cuda backend, const Problem& problem, const raw::EvoNormBackward& arrays, const Workspace& workspace);

// On CUDA (evonorm.cu).
raw::EvoNormMemory memory(const Problem& problem);
void forward(const raw::OnStream& where, const Problem& problem, const raw::EvoNormForward& arrays);
void backward(const raw::OnStream& where, const Problem& problem, const raw::EvoNormBackward& arrays);

// Errors of kernel-level calls (problem.cpp).
void check_problem(const Problem& p);
void check(const Problem& p, const raw::EvoNormForward& arrays);
void check(const Problem& p, const raw::EvoNormBackward& arrays);

inline ForwardArguments arguments(const raw::EvoNormForward& f, const Statistics& statistics) {
  return {f.x, f.gamma, f.beta, f.v, f.running_var, f.y, statistics};
}
inline BackwardArguments arguments(const raw::EvoNormBackward& b, const Statistics& statistics) {
  return {b.x, b.gamma, b.v, statistics, b.dy, b.dx, b.dgamma, b.dbeta, b.dv};
}

}  // namespace bevel::evo
