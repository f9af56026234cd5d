// Tensor: a shared handle to a dense row-major array with its autograd state.
//
// Copying a Tensor copies the handle; the elements are shared. Elements always lie densely, last axis innermost, so a
// view (reshape, a slice of the outermost axis) is another handle to the same buffer at an offset, and every other
// rearrangement copies. Operators are free functions in bevel/ops.
#pragma once

#include <bevel/core/detail/recording.h>
#include <bevel/core/device.h>
#include <bevel/core/dtype.h>
#include <bevel/core/memory.h>
#include <bevel/core/shape.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

namespace bevel {

class Node;
class Tensor;

// What a new tensor is like. Order of the fields: dtype, device, requires_grad.
struct TensorOptions {
  Dtype dtype = f32;
  Device device = cpu;
  bool requires_grad = false;
};

namespace detail {

struct HalfCopy;
struct TensorImpl;

// The state that autograd keeps with a tensor. Either it is a leaf (no node) that may require a gradient, or the output
// number `output` of `node`.
struct AutogradState {
  bool requires_grad = false;
  bool retain_grad = false;
  std::shared_ptr<Node> node;
  int output = 0;
  std::shared_ptr<TensorImpl> grad;
};

struct TensorImpl {
  Shape shape;
  Dtype dtype = f32;
  std::shared_ptr<Buffer> buffer;
  std::int64_t offset = 0;  // in elements
  AutogradState autograd;
  std::shared_ptr<HalfCopy> half_copy;  // see half_copy.h
};

}  // namespace detail

class Tensor {
 public:
  // An undefined tensor: no elements, no shape. Asking it for anything but defined() is an Error.
  Tensor() = default;

  // Uninitialised elements. Error if requires_grad is asked of a dtype that is not floating.
  static Tensor empty(const Shape& shape, TensorOptions options = {});
  static Tensor zeros(const Shape& shape, TensorOptions options = {});
  // Copies host values, converted to options.dtype: Tensor::from({2, 2}, {1, 2, 3, 4}). Error if the count differs.
  static Tensor from(const Shape& shape, std::initializer_list<double> values, TensorOptions options = {});
  // Copies host values, dtype_of<T>: options.dtype is ignored.
  template <class T>
  static Tensor from_values(const Shape& shape, std::span<const T> values, TensorOptions options = {}) {
    options.dtype = dtype_of<T>;
    return from_host(shape, values.data(), static_cast<std::int64_t>(values.size()), options);
  }
  template <class T>
  static Tensor from_values(const Shape& shape, const std::vector<T>& values, TensorOptions options = {}) {
    return from_values(shape, std::span<const T>(values), options);
  }
  // One element, shape [].
  static Tensor scalar(double value, TensorOptions options = {});

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const { return impl().shape; }
  int rank() const { return impl().shape.rank(); }
  // Size of one axis; -1 is the last.
  std::int64_t size(int axis) const { return shape()[shape().axis(axis, "Tensor::size")]; }
  std::int64_t numel() const { return impl().shape.numel(); }
  Dtype dtype() const { return impl().dtype; }
  Device device() const { return impl().buffer->device(); }
  TensorOptions options() const { return {.dtype = dtype(), .device = device()}; }

  // The first element, on the tensor's device. Error unless T is the tensor's element type. Whoever writes through the
  // pointer calls mark_changed() afterwards, unless the tensor is new.
  template <class T>
  T* data() const {
    require_dtype(dtype_of<T>);
    return static_cast<T*>(raw());
  }
  void* raw() const {
    const detail::TensorImpl& own = impl();
    if (detail::recording) [[unlikely]]
      detail::note_use(impl_);
    return static_cast<char*>(own.buffer->data()) + own.offset * size_of(own.dtype);
  }
  std::int64_t bytes() const { return numel() * size_of(dtype()); }

  // Element values on the host, in row-major order, converted to T. Waits for the device.
  template <class T>
  std::vector<T> to_vector() const;
  std::vector<double> to_vector() const { return to_vector<double>(); }
  // The value of the only element. Error unless numel() == 1.
  double item() const;

  // The same elements on `device`: this handle if they are there already, else a copy. Differentiable.
  Tensor to(Device device) const;
  // A copy in a buffer of its own. Differentiable.
  Tensor clone() const;
  // A view of the elements [offset, offset + shape.numel()) under another shape, without history. Ops build on it.
  Tensor view(const Shape& shape, std::int64_t offset = 0) const;
  // Overwrites the elements by those of `source` (same shape and dtype, any device). Error if this tensor has history,
  // or requires a gradient while gradients are recorded.
  void copy_from(const Tensor& source) const;

  // --- autograd (see autograd.h) ---
  bool requires_grad() const { return impl().autograd.requires_grad; }
  // For leaves only: Error on a tensor computed by an operator, or of a dtype that is not floating.
  const Tensor& set_requires_grad(bool requires_grad = true) const;
  bool is_leaf() const { return !impl().autograd.node; }
  // The gradient accumulated by backward(); undefined where there is none.
  Tensor grad() const;
  // Replaces the gradient; an undefined tensor lets it go. Error unless shape, dtype and device are those of this
  // tensor.
  void set_grad(const Tensor& gradient) const;
  // backward() keeps the gradient of this computed tensor in grad(), too.
  void retain_grad() const;
  // The same elements without history.
  Tensor detach() const;
  // Accumulates the gradient of this tensor into grad() of every leaf; see bevel::backward.
  void backward(const Tensor& gradient = {}) const;

  std::uint64_t version() const { return impl().buffer->version(); }
  void mark_changed() const {
    impl().buffer->mark_changed();
    if (detail::recording) [[unlikely]]
      detail::note_change(impl_);
  }

  // Whether both are handles to the same tensor.
  friend bool same(const Tensor& a, const Tensor& b) { return a.impl_ == b.impl_; }

  explicit Tensor(std::shared_ptr<detail::TensorImpl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<detail::TensorImpl>& shared_impl() const { return impl_; }

 private:
  detail::TensorImpl& impl() const {
    if (!impl_) [[unlikely]]
      fail("Tensor: an undefined tensor was used");
    return *impl_;
  }
  void require_dtype(Dtype dtype) const {
    if (impl().dtype != dtype) [[unlikely]]
      fail("Tensor::data: the elements are ", impl().dtype, ", not ", dtype);
  }
  static Tensor from_host(const Shape& shape, const void* values, std::int64_t count, TensorOptions options);

  std::shared_ptr<detail::TensorImpl> impl_;
};

template <class T>
std::vector<T> Tensor::to_vector() const {
  if (device().is_cuda()) detail::refuse_while_recording("Tensor::to_vector");
  const Tensor host = detach().to(cpu);
  std::vector<T> result(static_cast<std::size_t>(numel()));
  visit(dtype(), [&]<class From>() {
    const From* from = host.data<From>();
    for (std::size_t i = 0; i < result.size(); ++i) {
      if constexpr (is_floating(dtype_of<From>))
        result[i] = static_cast<T>(static_cast<compute_t<From>>(from[i]));
      else
        result[i] = static_cast<T>(from[i]);
    }
  });
  return result;
}

// Copies bytes between any two devices, ordered on the current streams.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);

// --- checks that operators share; messages name `function` ---
void require_same_shape(const Tensor& a, const Tensor& b, const char* function, const char* name_a, const char* name_b);
void require_same_device(const Tensor& a, const Tensor& b, const char* function, const char* name_a,
                         const char* name_b);
void require_same_dtype(const Tensor& a, const Tensor& b, const char* function, const char* name_a, const char* name_b);
void require_floating(const Tensor& a, const char* function, const char* name);
void require_rank(const Tensor& a, int rank, const char* function, const char* name);

}  // namespace bevel
