#include <bevel/ops/kernel/map.h>
#include <bevel/ops/pointwise/detail/binary_kernels.h>

namespace bevel::pointwise {

void binary_kernel(Cpu backend, Binary op, const kernel::Broadcast<2>& plan, const Tensor& out, const Tensor& a,
                   const Tensor& b) {
  dispatch_binary(op, out.dtype(), [&]<class T>(auto f) {
    kernel::map_broadcast(backend, f, plan, out.data<T>(), static_cast<const T*>(a.data<T>()),
                          static_cast<const T*>(b.data<T>()));
  });
}

void scalar_kernel(Cpu backend, Scalar op, double number, const Tensor& out, const Tensor& a) {
  dispatch_scalar(op, number, out.dtype(), [&]<class T>(auto f) {
    kernel::map(backend, f, out.numel(), out.data<T>(), static_cast<const T*>(a.data<T>()));
  });
}

}  // namespace bevel::pointwise
