#include <bevel/ops/pointwise/create.h>

#include <bevel/ops/pointwise/detail/create_kernels.h>

#include <cmath>

namespace bevel {

namespace {

Tensor ramp(std::int64_t count, double start, double step, double last, TensorOptions options) {
  Tensor out = Tensor::empty({count}, options);
  on(options.device, [&](auto backend) { pointwise::ramp_kernel(backend, {start, step, last, count}, out); });
  return out;
}

}  // namespace

Tensor full(const Shape& shape, double value, TensorOptions options) {
  Tensor out = Tensor::empty(shape, options);
  on(options.device, [&](auto backend) { pointwise::fill_kernel(backend, value, out); });
  return out;
}

Tensor ones(const Shape& shape, TensorOptions options) {
  return full(shape, 1, options);
}

Tensor zeros_like(const Tensor& x) {
  return Tensor::zeros(x.shape(), x.options());
}

Tensor ones_like(const Tensor& x) {
  return full(x.shape(), 1, x.options());
}

Tensor full_like(const Tensor& x, double value) {
  return full(x.shape(), value, x.options());
}

Tensor arange(double start, double stop, double step, TensorOptions options) {
  require(std::isfinite(start) && std::isfinite(stop) && std::isfinite(step) && step != 0,
          "arange: finite bounds and a step that is not 0 expected; got start ", start, ", stop ", stop, ", step ",
          step);
  const double count = std::max(0.0, std::ceil((stop - start) / step));
  require(count < 0x1p62, "arange: too many elements (", count, ")");
  return ramp(static_cast<std::int64_t>(count), start, step, start + (count - 1) * step, options);
}

Tensor arange(std::int64_t count, TensorOptions options) {
  require(count >= 0, "arange: count must not be negative; got ", count);
  return ramp(count, 0, 1, static_cast<double>(count - 1), options);
}

Tensor linspace(double start, double stop, std::int64_t count, TensorOptions options) {
  require(is_floating(options.dtype), "linspace: a floating dtype expected; got ", options.dtype);
  require(count >= 0, "linspace: count must not be negative; got ", count);
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
  return ramp(count, start, step, count > 1 ? stop : start, options);
}

Tensor eye(std::int64_t n, TensorOptions options) {
  Tensor out = Tensor::empty({n, n}, options);
  on(options.device, [&](auto backend) { pointwise::eye_kernel(backend, n, out); });
  return out;
}

}  // namespace bevel
