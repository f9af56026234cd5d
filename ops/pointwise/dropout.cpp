#include <bevel/ops/pointwise/dropout.h>

#include <bevel/core/autograd.h>
#include <bevel/ops/pointwise/detail/random_kernels.h>

namespace bevel {

namespace {

// Linear in x, so its derivative is itself.
Tensor apply_mask(const Tensor& x, double p, RandomState state) {
  Tensor out = Tensor::empty(x.shape(), x.options());
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  on(x.device(),
     [&](auto backend) { pointwise::dropout_kernel(backend, state, pointwise::threshold_of(p), scale, out, x); });
  record("dropout", out, {x}, {},
         [p, state](const Backward& backward) { return Gradients{apply_mask(backward.grad(), p, state)}; });
  return out;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training, Generator& generator) {
  require_floating(x, "dropout", "x");
  require(p >= 0 && p <= 1, "dropout: the probability must lie in [0, 1]; got ", p);
  if (!training || p == 0) return x;
  return apply_mask(x, p, generator.reserve(static_cast<std::uint64_t>((x.numel() + 3) / 4)));
}

}  // namespace bevel
