#include <bevel/ops/loss/detail/compiled.h>
#include <bevel/ops/loss/smooth_l1.h>

template void bevel::detail::launch_library_loss(Cuda, const SmoothL1&, const LossPass&);
