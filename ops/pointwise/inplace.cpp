#include <bevel/ops/pointwise/inplace.h>

#include <bevel/core/autograd.h>
#include <bevel/ops/pointwise/detail/binary_kernels.h>
#include <bevel/ops/pointwise/detail/create_kernels.h>

namespace bevel {

namespace {
void require_changeable(const Tensor& t, const char* name) {
  require(t.is_leaf() && !(t.requires_grad() && grad_enabled()), name,
          ": a tensor with history, or one that requires a gradient, is changed in place only under NoGrad");
}
}  // namespace

void fill_(const Tensor& t, double value) {
  require_changeable(t, "fill_");
  on(t.device(), [&](auto backend) { pointwise::fill_kernel(backend, value, t); });
  t.mark_changed();
}

void add_(const Tensor& t, const Tensor& other, double alpha) {
  require_changeable(t, "add_");
  require_floating(t, "add_", "t");
  require_same_shape(t, other, "add_", "t", "other");
  require_same_dtype(t, other, "add_", "t", "other");
  require_same_device(t, other, "add_", "t", "other");
  on(t.device(), [&](auto backend) { pointwise::add_scaled_kernel(backend, alpha, t, other); });
  t.mark_changed();
}

void mul_(const Tensor& t, double factor) {
  require_changeable(t, "mul_");
  pointwise::require_number(t, factor, "mul_");
  on(t.device(), [&](auto backend) { pointwise::scalar_kernel(backend, pointwise::Scalar::mul, factor, t, t); });
  t.mark_changed();
}

void copy_(const Tensor& t, const Tensor& source) {
  t.copy_from(source);
}

}  // namespace bevel
