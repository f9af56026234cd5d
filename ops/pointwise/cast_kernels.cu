#include <bevel/ops/pointwise/detail/cast_kernels.h>
#include <bevel/ops/kernel/map.cuh>

namespace bevel::pointwise {

void cast_kernel(Cuda backend, const Tensor& out, const Tensor& x) {
  dispatch_cast(x.dtype(), out.dtype(), [&]<class From, class To>() {
    const From* from = x.data<From>();
    kernel::map(backend, Convert<compute_t<To>>{}, x.numel(), out.data<To>(), from);
  });
}

}  // namespace bevel::pointwise
