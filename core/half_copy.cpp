#include <bevel/core/autograd.h>
#include <bevel/core/half_copy.h>

namespace bevel {

namespace {

detail::HalfCopy* kept(const Tensor& parameter) {
  return parameter.shared_impl()->half_copy.get();
}

bool is_current(const detail::HalfCopy& half, const Tensor& parameter) {
  return half.source == parameter.shared_impl()->buffer.get() && half.version == parameter.version();
}

void mark_current(detail::HalfCopy& half, const Tensor& parameter) {
  half.source = parameter.shared_impl()->buffer.get();
  half.version = parameter.version();
}

}  // namespace

Tensor find_half_copy(const Tensor& parameter, Dtype dtype) {
  const detail::HalfCopy* half = kept(parameter);
  return half && half->copy.dtype() == dtype && is_current(*half, parameter) ? half->copy : Tensor();
}

void keep_half_copy(const Tensor& parameter, const Tensor& copy,
                    void (*convert)(const Tensor& from, const Tensor& to)) {
  require_same_shape(parameter, copy, "keep_half_copy", "parameter", "copy");
  require_same_device(parameter, copy, "keep_half_copy", "parameter", "copy");
  require(parameter.dtype() == f32 && is_half(copy.dtype()),
          "keep_half_copy: a parameter of f32 and a copy of bf16 or ", "f16 expected; they are ", parameter.dtype(),
          " and ", copy.dtype());
  auto half = std::make_shared<detail::HalfCopy>();
  half->copy = copy.detach();
  half->convert = convert;
  mark_current(*half, parameter);
  parameter.shared_impl()->half_copy = std::move(half);
}

namespace detail {

Tensor half_copy_to_write(const Tensor& parameter) {
  const HalfCopy* half = kept(parameter);
  return half && half->copy.device() == parameter.device() ? half->copy : Tensor();
}

void half_copy_written(const Tensor& parameter) {
  HalfCopy* half = kept(parameter);
  if (!half) return;
  half->copy.mark_changed();
  mark_current(*half, parameter);
}

void refresh_half_copy(const Tensor& parameter) {
  HalfCopy* half = kept(parameter);
  if (!half || !half->convert || is_current(*half, parameter) || half->copy.device() != parameter.device()) return;
  no_grad([&] { half->convert(parameter.detach(), half->copy); });
  half->copy.mark_changed();
  mark_current(*half, parameter);
}

}  // namespace detail
}  // namespace bevel
