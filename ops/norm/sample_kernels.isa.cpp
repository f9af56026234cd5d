// CPU kernels over one sample.
#include <bevel/ops/evonorm/detail/sample_loops.h>
#include <bevel/ops/norm/detail/formula.h>
#include <bevel/ops/norm/detail/sample_kernels.h>

namespace bevel::norm::BEVEL_ISA {

namespace {

namespace loops = evo::BEVEL_ISA;

// Calls f.operator()<T, activation>() for the problem's dtype and activation.
template <class F>
void visit_problem(const Problem& p, const F& f) {
  visit_floating(p.maps.dtype, "norm", [&]<class T>() {
    visit_activation(p.activation, [&]<Activation activation>() { f.template operator()<T, activation>(); });
  });
}

void forward(const Problem& p, const void* x, void* y, const double* coefficients) {
  visit_problem(p, [&]<class T, Activation activation>() {
    loops::map<Forward<compute_t<T>, activation>>(p.maps, static_cast<const T*>(x), static_cast<T*>(y), coefficients);
  });
}

void reduce(const Problem& p, const void* x, const void* dy, const double* coefficients, double* sums) {
  visit_problem(p, [&]<class T, Activation activation>() {
    loops::reduce<Reduce<compute_t<T>, activation>>(p.maps, static_cast<const T*>(x), static_cast<const T*>(dy),
                                                    coefficients, sums);
  });
}

void backward(const Problem& p, const void* x, const void* dy, void* dx, const double* coefficients) {
  visit_problem(p, [&]<class T, Activation activation>() {
    loops::map<Backward<compute_t<T>, activation>>(p.maps, static_cast<const T*>(x), static_cast<const T*>(dy),
                                                   static_cast<T*>(dx), coefficients);
  });
}

}  // namespace

SampleKernels kernels() {
  return {forward, reduce, backward};
}

}  // namespace bevel::norm::BEVEL_ISA
