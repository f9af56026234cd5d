// CPU kernels over one sample.
#include <bevel/ops/evonorm/detail/formula.h>
#include <bevel/ops/evonorm/detail/sample_kernels.h>
#include <bevel/ops/evonorm/detail/sample_loops.h>

namespace bevel::evo::BEVEL_ISA {

namespace {

template <template <class> class Formula>
void forward(const Problem& p, const void* x, void* y, const double* coefficients) {
  visit_floating(p.dtype, "evonorm", [&]<class T>() {
    map<Formula<compute_t<T>>>(p, static_cast<const T*>(x), static_cast<T*>(y), coefficients);
  });
}

template <template <class> class Formula>
void sum(const Problem& p, const void* x, const void* dy, const double* coefficients, double* sums) {
  visit_floating(p.dtype, "evonorm", [&]<class T>() {
    reduce<Formula<compute_t<T>>>(p, static_cast<const T*>(x), static_cast<const T*>(dy), coefficients, sums);
  });
}

template <template <class> class Formula>
void backward(const Problem& p, const void* x, const void* dy, void* dx, const double* coefficients) {
  visit_floating(p.dtype, "evonorm", [&]<class T>() {
    map<Formula<compute_t<T>>>(p, static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dx),
                               coefficients);
  });
}

void all_moments(const Problem& p, const void* x, double* result) {
  visit_floating(p.dtype, "evonorm", [&]<class T>() { moments(p, static_cast<const T*>(x), result); });
}

}  // namespace

SampleKernels kernels() {
  return {all_moments,        forward<GateForward>,   forward<MaximumForward>,  sum<GateReduce>,
          sum<MaximumReduce>, backward<GateBackward>, backward<MaximumBackward>};
}

}  // namespace bevel::evo::BEVEL_ISA
