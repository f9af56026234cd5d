// CPU kernels over one sample, compiled for each instruction set (sample_kernels.isa.cpp). Tables hold one row of
// `channels` doubles for each coefficient or sum.
#pragma once

#include <bevel/ops/norm/detail/problem.h>

namespace bevel::norm {

struct SampleKernels {
  void (*forward)(const Problem&, const void* x, void* y, const double* coefficients);
  // Sums over the pixels of du and du * (x - pivot), for each channel.
  void (*reduce)(const Problem&, const void* x, const void* dy, const double* coefficients, double* sums);
  void (*backward)(const Problem&, const void* x, const void* dy, void* dx, const double* coefficients);
};

}  // namespace bevel::norm
