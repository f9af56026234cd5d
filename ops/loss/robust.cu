#include <bevel/ops/loss/charbonnier.h>
#include <bevel/ops/loss/detail/library.h>
#include <bevel/ops/loss/log_cosh.h>
#include <bevel/ops/loss/quantile_loss.h>

namespace bevel::detail {

template void launch_library_loss(Cuda, const formula::LogCosh&, const LossPass&);
template void launch_library_loss(Cuda, const formula::Charbonnier&, const LossPass&);
template void launch_library_loss(Cuda, const formula::Quantile&, const LossPass&);

}  // namespace bevel::detail
