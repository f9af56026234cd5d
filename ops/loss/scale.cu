#include <bevel/ops/loss/detail/library_launch.h>
#include <bevel/ops/loss/detail/scale_kernel.cuh>

namespace bevel::detail {

void launch_library_scale(const raw::OnStream& where, const raw::GradientScale& scale) {
  launch_scale(where, scale);
}

}  // namespace bevel::detail
