// A descriptor of cuDNN's backend interface: made, given attributes, finalised, used.
#pragma once

#include <bevel/core/cuda/cudnn.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace bevel::detail {

// cuDNN's name for the type of an attribute's elements.
template <class T>
constexpr cudnnBackendAttributeType_t attribute_type() {
  if constexpr (std::is_same_v<T, std::int64_t>)
    return CUDNN_TYPE_INT64;
  else if constexpr (std::is_same_v<T, float>)
    return CUDNN_TYPE_FLOAT;
  else if constexpr (std::is_same_v<T, void*>)
    return CUDNN_TYPE_VOID_PTR;
  else if constexpr (std::is_same_v<T, cudnnDataType_t>)
    return CUDNN_TYPE_DATA_TYPE;
  else if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>)
    return CUDNN_TYPE_CONVOLUTION_MODE;
  else if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>)
    return CUDNN_TYPE_HEUR_MODE;
  else if constexpr (std::is_same_v<T, cudnnBackendNumericalNote_t>)
    return CUDNN_TYPE_NUMERICAL_NOTE;
  else if constexpr (std::is_same_v<T, cudnnBackendBehaviorNote_t>)
    return CUDNN_TYPE_BEHAVIOR_NOTE;
  else if constexpr (std::is_same_v<T, cudnnBackendKnobType_t>)
    return CUDNN_TYPE_KNOB_TYPE;
  else
    static_assert(!sizeof(T), "not the type of an attribute used here");
}

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    gpu::check(cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() {
    if (descriptor_) cudnnBackendDestroyDescriptor(descriptor_);
  }

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  template <class T>
  void set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    put(name, attribute_type<T>(), values.size(), values.data());
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    put(name, attribute_type<T>(), 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    put(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
  }
  void set(cudnnBackendAttributeName_t name, cudnnHandle_t handle) { put(name, CUDNN_TYPE_HANDLE, 1, &handle); }

  void finalize(const char* what) { gpu::check(cudnnBackendFinalize(descriptor_), what); }
  // For descriptors that a GPU or a shape may not support.
  bool try_finalize() { return cudnnBackendFinalize(descriptor_) == CUDNN_STATUS_SUCCESS; }

  // At most `most` elements of an attribute.
  template <class T>
  std::vector<T> get(cudnnBackendAttributeName_t name, std::int64_t most) const {
    std::vector<T> values(static_cast<std::size_t>(most));
    values.resize(count(name, attribute_type<T>(), most, values.data()));
    return values;
  }
  // Fills descriptors made beforehand and drops the rest.
  void get(cudnnBackendAttributeName_t name, std::vector<Descriptor>& into) const {
    std::vector<cudnnBackendDescriptor_t> raw;
    raw.reserve(into.size());
    for (const Descriptor& d : into) raw.push_back(d.descriptor_);
    const std::size_t got =
        count(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()), raw.data());
    while (into.size() > got) into.pop_back();
  }

 private:
  void put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t n, const void* values) {
    gpu::check(cudnnBackendSetAttribute(descriptor_, name, type, static_cast<std::int64_t>(n), values),
               "cudnnBackendSetAttribute");
  }
  std::size_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                    void* values) const {
    std::int64_t got = 0;
    gpu::check(cudnnBackendGetAttribute(descriptor_, name, type, most, &got, values), "cudnnBackendGetAttribute");
    return static_cast<std::size_t>(std::min(got, most));
  }

  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace bevel::detail
