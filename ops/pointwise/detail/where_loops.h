// Definitions of where_kernels.h, for the sources that instantiate them: one for each backend.
#pragma once

#include <bevel/ops/kernel/map_backend.h>
#include <bevel/ops/kernel/width.h>
#include <bevel/ops/pointwise/detail/where_kernels.h>

namespace bevel::pointwise {

template <class Backend>
void where_kernel(Backend backend, const kernel::Broadcast<3>& plan, const Tensor& out, const Tensor& condition,
                  const Tensor& a, const Tensor& b) {
  kernel::visit_width(size_of(out.dtype()), [&]<class T>(T) {
    kernel::map_broadcast(backend, Choose{}, plan, static_cast<T*>(out.raw()),
                          static_cast<const std::uint8_t*>(condition.raw()), static_cast<const T*>(a.raw()),
                          static_cast<const T*>(b.raw()));
  });
}

}  // namespace bevel::pointwise
