#include <bevel/core/parallel.h>
#include <bevel/nn/clip.h>
#include <bevel/nn/detail/clip_kernels.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <vector>

namespace bevel::nn {

namespace detail {

namespace {

using bevel::detail::chunk_size;

// Eight sums side by side, which the compiler can keep in vector registers, added up in order.
template <class T>
double square_sum(const T* values, std::int64_t size) {
  constexpr std::int64_t lanes = 8;
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= size; i += lanes)
    for (std::int64_t k = 0; k < lanes; ++k) {
      const auto value = static_cast<double>(values[i + k]);
      sums[k] += value * value;
    }
  for (; i < size; ++i) sums[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

constexpr std::int64_t grain = 8 * chunk_size;

template <class T, class F>
void for_each_element(std::span<const Array<T>> arrays, const F& f) {
  for (const Array<T>& array : arrays)
    parallel_ranges(array.size, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) array.data[i] = f(array.data[i]);
    });
}

}  // namespace

template <class T>
void square_sums(Cpu, std::span<const Array<T>> arrays, double* sums) {
  for (const Array<T>& array : arrays) {
    parallel_ranges(array.size, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += chunk_size)
        sums[i / chunk_size] = square_sum(array.data + i, std::min(chunk_size, end - i));
    });
    sums += chunk_count(array.size);
  }
}

void norm_and_scale(Cpu, const double* sums, std::int64_t count, double max_norm, double* norm, double* scale) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += sums[i];
  *norm = std::sqrt(sum);
  const double factor = max_norm / (*norm + 1e-6);
  *scale = factor < 1 || std::isnan(factor) ? factor : 1;
}

template <class T>
void scale_arrays(Cpu, std::span<const Array<T>> arrays, const double* scale) {
  if (*scale == 1) return;
  for_each_element(arrays, [factor = static_cast<T>(*scale)](T value) { return value * factor; });
}

template <class T>
void clamp_arrays(Cpu, std::span<const Array<T>> arrays, T limit) {
  for_each_element(arrays, [limit](T value) { return value > limit ? limit : value < -limit ? -limit : value; });
}

}  // namespace detail

namespace {

// The gradients of one device, as arrays by dtype.
struct GradientArrays {
  std::vector<Tensor> gradients;
  std::vector<detail::Array<float>> f32_arrays;
  std::vector<detail::Array<double>> f64_arrays;
  std::int64_t chunks = 0;
  Device device = cpu;

  template <class T>
  std::span<const detail::Array<T>> arrays() const {
    if constexpr (sizeof(T) == sizeof(float))
      return f32_arrays;
    else
      return f64_arrays;
  }
  template <class T>
  std::int64_t chunk_count() const {
    std::int64_t count = 0;
    for (const auto& array : arrays<T>()) count += detail::chunk_count(array.size);
    return count;
  }
  void mark_changed() const {
    for (const Tensor& gradient : gradients) gradient.mark_changed();
  }
};

GradientArrays collect(const char* function, std::span<const Tensor> parameters) {
  GradientArrays result;
  std::unordered_set<const void*> seen;
  for (const Tensor& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (!gradient.defined() || !seen.insert(parameter.shared_impl().get()).second) continue;
    require(gradient.dtype() == f32 || gradient.dtype() == f64, function, ": gradients must be f32 or f64; one is ",
            gradient.dtype(), " ", gradient.shape());
    if (result.gradients.empty()) result.device = gradient.device();
    require(gradient.device() == result.device, function, ": all gradients must be on one device; found ",
            result.device, " and ", gradient.device());
    result.gradients.push_back(gradient);
    if (gradient.dtype() == f32)
      result.f32_arrays.push_back({gradient.data<float>(), gradient.numel()});
    else
      result.f64_arrays.push_back({gradient.data<double>(), gradient.numel()});
  }
  result.chunks = result.chunk_count<float>() + result.chunk_count<double>();
  return result;
}

}  // namespace

Tensor clip_grad_norm(std::span<const Tensor> parameters, double max_norm) {
  require(std::isfinite(max_norm) && max_norm >= 0, "clip_grad_norm: max_norm must be finite and not negative; got ",
          max_norm);
  const GradientArrays arrays = collect("clip_grad_norm", parameters);
  const TensorOptions options{.dtype = f64, .device = arrays.device};
  const Tensor norm = Tensor::empty({}, options);
  const Tensor scale = Tensor::empty({}, options);
  const Tensor sums = Tensor::empty({arrays.chunks}, options);
  on(arrays.device, [&](auto backend) {
    auto* partial = sums.data<double>();
    detail::square_sums(backend, arrays.arrays<float>(), partial);
    detail::square_sums(backend, arrays.arrays<double>(), partial + arrays.chunk_count<float>());
    detail::norm_and_scale(backend, partial, arrays.chunks, max_norm, norm.data<double>(), scale.data<double>());
    detail::scale_arrays(backend, arrays.arrays<float>(), scale.data<double>());
    detail::scale_arrays(backend, arrays.arrays<double>(), scale.data<double>());
  });
  arrays.mark_changed();
  return norm;
}

void clip_grad_value(std::span<const Tensor> parameters, double max_value) {
  require(std::isfinite(max_value) && max_value >= 0,
          "clip_grad_value: max_value must be finite and not negative; got ", max_value);
  const GradientArrays arrays = collect("clip_grad_value", parameters);
  on(arrays.device, [&](auto backend) {
    detail::clamp_arrays(backend, arrays.arrays<float>(), static_cast<float>(max_value));
    detail::clamp_arrays(backend, arrays.arrays<double>(), max_value);
  });
  arrays.mark_changed();
}

}  // namespace bevel::nn
