// CPU kernels over one sample, compiled for each instruction set (sample_kernels.isa.cpp).
//
// Tables hold one row of `channels` doubles for each coefficient or sum.
#pragma once

#include <bevel/ops/evonorm/detail/problem.h>

namespace bevel::evo {

struct SampleKernels {
  // Mean, and sum of squared deviations from it, of each channel: moments[0][c], moments[1][c].
  void (*moments)(const Problem&, const void* x, double* moments);
  // y from x.
  void (*gate_forward)(const Problem&, const void* x, void* y, const double* coefficients);
  void (*maximum_forward)(const Problem&, const void* x, void* y, const double* coefficients);
  // Sums over the pixels, for each channel.
  void (*gate_reduce)(const Problem&, const void* x, const void* dy, const double* coefficients, double* sums);
  void (*maximum_reduce)(const Problem&, const void* x, const void* dy, const double* coefficients, double* sums);
  // dx from x and dy.
  void (*gate_backward)(const Problem&, const void* x, const void* dy, void* dx, const double* coefficients);
  void (*maximum_backward)(const Problem&, const void* x, const void* dy, void* dx, const double* coefficients);
};

// The best set for this processor.
const SampleKernels& sample_kernels();

}  // namespace bevel::evo
