#include <bevel/core/autograd.h>
#include <bevel/core/cuda/backend.h>
#include <bevel/core/tensor.h>

#include <cstring>

namespace bevel {

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  if (bytes == 0) return;
  if constexpr (has_cuda)
    if (to_device.is_cuda() || from_device.is_cuda()) return gpu::copy(to, to_device, from, from_device, bytes);
  std::memcpy(to, from, bytes);
}

namespace {
Tensor make(const Shape& shape, Dtype dtype, std::shared_ptr<Buffer> buffer, std::int64_t offset) {
  auto impl = std::make_shared<detail::TensorImpl>();
  impl->shape = shape;
  impl->dtype = dtype;
  impl->buffer = std::move(buffer);
  impl->offset = offset;
  return Tensor(std::move(impl));
}
}  // namespace

Tensor Tensor::empty(const Shape& shape, TensorOptions options) {
  require(!options.requires_grad || is_floating(options.dtype),
          "Tensor: only floating tensors can require a gradient; the dtype is ", options.dtype);
  std::int64_t bytes = 0;
  require(!__builtin_mul_overflow(shape.numel(), size_of(options.dtype), &bytes), "Tensor: shape ", shape, " of ",
          options.dtype, " is too large");
  Tensor result = make(shape, options.dtype, Buffer::allocate(static_cast<std::size_t>(bytes), options.device), 0);
  result.impl().autograd.requires_grad = options.requires_grad;
  return result;
}

Tensor Tensor::zeros(const Shape& shape, TensorOptions options) {
  Tensor result = empty(shape, options);
  if (result.numel() == 0) return result;
  const auto bytes = static_cast<std::size_t>(result.bytes());
  if constexpr (has_cuda) {
    if (options.device.is_cuda()) {
      gpu::fill_zero(result.raw(), options.device, bytes);
      return result;
    }
  }
  std::memset(result.raw(), 0, bytes);
  return result;
}

Tensor Tensor::from_host(const Shape& shape, const void* values, std::int64_t count, TensorOptions options) {
  require(count == shape.numel(), "Tensor: shape ", shape, " has ", shape.numel(), " elements; got ", count, " values");
  Tensor result = empty(shape, options);
  copy_bytes(result.raw(), options.device, values, cpu, static_cast<std::size_t>(result.bytes()));
  return result;
}

Tensor Tensor::from(const Shape& shape, std::initializer_list<double> values, TensorOptions options) {
  return visit(options.dtype, [&]<class T>() {
    const auto count = static_cast<std::int64_t>(values.size());
    const auto converted = std::make_unique<T[]>(values.size());
    std::size_t i = 0;
    for (const double value : values) converted[i++] = static_cast<T>(static_cast<compute_t<T>>(value));
    return from_host(shape, converted.get(), count, options);
  });
}

Tensor Tensor::scalar(double value, TensorOptions options) {
  return from({}, {value}, options);
}

double Tensor::item() const {
  if (device().is_cuda()) detail::refuse_while_recording("Tensor::item");
  require(numel() == 1, "Tensor::item: expected one element; the shape is ", shape());
  return to_vector<double>()[0];
}

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  detail::refuse_while_recording(device.is_cuda() ? "Tensor::to another device" : "Tensor::to(cpu)");
  Tensor result = empty(shape(), {.dtype = dtype(), .device = device});
  copy_bytes(result.raw(), device, raw(), this->device(), static_cast<std::size_t>(bytes()));
  record("to", result, {*this}, {},
         [from = this->device()](const Backward& b) { return Gradients{b.grad().to(from)}; });
  return result;
}

Tensor Tensor::clone() const {
  Tensor result = empty(shape(), options());
  copy_bytes(result.raw(), device(), raw(), device(), static_cast<std::size_t>(bytes()));
  record("clone", result, {*this}, {}, [](const Backward& b) { return Gradients{b.grad()}; });
  return result;
}

Tensor Tensor::view(const Shape& shape, std::int64_t offset) const {
  require(offset >= 0 && offset + shape.numel() <= numel(), "Tensor::view: elements ", offset, " to ",
          offset + shape.numel(), " lie outside shape ", this->shape());
  if (detail::recording && device().is_cuda()) [[unlikely]]
    detail::note_use(impl_);  // the view may be gone at a replay, so this tensor's memory is looked after
  return make(shape, dtype(), impl().buffer, impl().offset + offset);
}

void Tensor::copy_from(const Tensor& source) const {
  require_same_shape(*this, source, "copy_from", "this tensor", "source");
  require_same_dtype(*this, source, "copy_from", "this tensor", "source");
  require(is_leaf() && !(requires_grad() && grad_enabled()),
          "copy_from: a tensor with history, or one that requires a gradient, is changed in place only under NoGrad");
  if (device() != source.device()) detail::refuse_while_recording("Tensor::copy_from another device");
  copy_bytes(raw(), device(), source.raw(), source.device(), static_cast<std::size_t>(bytes()));
  mark_changed();
}

const Tensor& Tensor::set_requires_grad(bool requires_grad) const {
  require(is_leaf(), "set_requires_grad: the tensor was computed by an operator; detach() it first");
  require(!requires_grad || is_floating(dtype()),
          "set_requires_grad: only floating tensors can require a gradient; the dtype is ", dtype());
  impl().autograd.requires_grad = requires_grad;
  return *this;
}

Tensor Tensor::grad() const {
  return Tensor(impl().autograd.grad);
}

void Tensor::set_grad(const Tensor& gradient) const {
  if (gradient.defined()) {
    require_same_shape(*this, gradient, "set_grad", "tensor", "gradient");
    require_same_dtype(*this, gradient, "set_grad", "tensor", "gradient");
    require_same_device(*this, gradient, "set_grad", "tensor", "gradient");
  }
  if (detail::recording) detail::note_gradient(impl_, !gradient.defined());
  impl().autograd.grad = gradient.shared_impl();
}

void Tensor::retain_grad() const {
  require(requires_grad(), "retain_grad: the tensor does not require a gradient");
  impl().autograd.retain_grad = true;
}

Tensor Tensor::detach() const {
  return view(shape());
}

void Tensor::backward(const Tensor& gradient) const {
  bevel::backward(*this, gradient);
}

void require_same_shape(const Tensor& a, const Tensor& b, const char* function, const char* name_a,
                        const char* name_b) {
  require(a.shape() == b.shape(), function, ": ", name_a, " and ", name_b, " must have the same shape; ", name_a,
          " is ", a.shape(), ", ", name_b, " is ", b.shape());
}

void require_same_device(const Tensor& a, const Tensor& b, const char* function, const char* name_a,
                         const char* name_b) {
  require(a.device() == b.device(), function, ": ", name_a, " and ", name_b, " must be on the same device; ", name_a,
          " is on ", a.device(), ", ", name_b, " on ", b.device());
}

void require_same_dtype(const Tensor& a, const Tensor& b, const char* function, const char* name_a,
                        const char* name_b) {
  require(a.dtype() == b.dtype(), function, ": ", name_a, " and ", name_b, " must have the same dtype; ", name_a,
          " is ", a.dtype(), ", ", name_b, " is ", b.dtype());
}

void require_floating(const Tensor& a, const char* function, const char* name) {
  require(is_floating(a.dtype()), function, ": ", name, " must be floating; its dtype is ", a.dtype());
}

void require_rank(const Tensor& a, int rank, const char* function, const char* name) {
  require(a.rank() == rank, function, ": ", name, " must have ", rank, " axes; its shape is ", a.shape());
}

}  // namespace bevel
