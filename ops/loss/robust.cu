#include <bevel/ops/loss/charbonnier.h>
#include <bevel/ops/loss/detail/library_launch.h>
#include <bevel/ops/loss/log_cosh.h>
#include <bevel/ops/loss/quantile_loss.h>

namespace bevel::detail {

template void launch_library_loss(const raw::OnStream&, const formula::LogCosh&, const raw::LossPass&);
template void launch_library_loss(const raw::OnStream&, const formula::Charbonnier&, const raw::LossPass&);
template void launch_library_loss(const raw::OnStream&, const formula::Quantile&, const raw::LossPass&);

}  // namespace bevel::detail
