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

std::int64_t chunk_count(std::int64_t size) {
  return (size + chunk_size - 1) / chunk_size;
}

// The sum of squares of each chunk of one gradient.
template <class T>
void square_sums(const T* values, std::int64_t size, double* sums) {
  parallel_ranges(size, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += chunk_size)
      sums[i / chunk_size] = square_sum(values + i, std::min(chunk_size, end - i));
  });
}

// f(values, size) on the elements of a gradient.
template <class F>
void visit_gradient(const Gradient& gradient, const F& f) {
  if (gradient.is_f64)
    f(static_cast<double*>(gradient.data), gradient.size);
  else
    f(static_cast<float*>(gradient.data), gradient.size);
}

template <class F>
void change(std::span<const Gradient> gradients, const F& f) {
  for (const Gradient& gradient : gradients)
    visit_gradient(gradient, [&](auto* values, std::int64_t size) {
      parallel_ranges(size, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) values[i] = f(values[i]);
      });
    });
}

}  // namespace

void gradient_norm(Cpu, std::span<const Gradient> gradients, const NormRequest& request, bevel::detail::TableMemory&) {
  double sum = 0;
  for (const Gradient& gradient : gradients) {
    std::vector<double> sums(static_cast<std::size_t>(chunk_count(gradient.size)));
    visit_gradient(gradient, [&](const auto* values, std::int64_t size) { square_sums(values, size, sums.data()); });
    for (const double part : sums) sum += part;
  }
  const double factor = request.factor.value();
  *request.norm = factor * std::sqrt(sum);
  *request.scale = clip_scale(*request.norm, request.max_norm, factor);
}

void scale_gradients(Cpu, std::span<const Gradient> gradients, const double* scale, bevel::detail::TableMemory&) {
  if (*scale == 1) return;
  change(gradients, [factor = *scale]<class T>(T value) { return value * static_cast<T>(factor); });
}

void clamp_gradients(Cpu, std::span<const Gradient> gradients, double limit, bevel::detail::TableMemory&) {
  change(gradients, [limit]<class T>(T value) {
    const T most = static_cast<T>(limit);
    return value > most ? most : value < -most ? -most : value;
  });
}

}  // namespace detail

namespace {

// The gradients of one device.
struct Gradients {
  std::vector<Tensor> tensors;
  std::vector<detail::Gradient> arrays;
  Device device = cpu;

  void mark_changed() const {
    for (const Tensor& gradient : tensors) gradient.mark_changed();
  }
};

Gradients collect(const char* function, std::span<const Tensor> parameters) {
  Gradients result;
  std::unordered_set<const void*> seen;
  for (const Tensor& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (!gradient.defined() || !seen.insert(parameter.shared_impl().get()).second) continue;
    require(gradient.dtype() == f32 || gradient.dtype() == f64, function, ": gradients must be f32 or f64; one is ",
            gradient.dtype(), " ", gradient.shape());
    if (result.tensors.empty()) result.device = gradient.device();
    require(gradient.device() == result.device, function, ": all gradients must be on one device; found ",
            result.device, " and ", gradient.device());
    result.tensors.push_back(gradient);
    result.arrays.push_back({gradient.raw(), gradient.numel(), gradient.dtype() == f64});
  }
  return result;
}

}  // namespace

Tensor clip_grad_norm(std::span<const Tensor> parameters, double max_norm) {
  require(std::isfinite(max_norm) && max_norm >= 0, "clip_grad_norm: max_norm must be finite and not negative; got ",
          max_norm);
  const Gradients gradients = collect("clip_grad_norm", parameters);
  Tensor norm = Tensor::empty({}, {.dtype = f64, .device = gradients.device});
  const Tensor numbers = Tensor::zeros({2}, {.dtype = f64, .device = gradients.device});  // the scale, and a counter
  detail::NormRequest request;
  request.max_norm = max_norm;
  request.norm = norm.data<double>();
  request.scale = numbers.data<double>();
  request.arrived = reinterpret_cast<unsigned*>(request.scale + 1);
  bevel::detail::TableMemory memory;
  on(gradients.device, [&](auto backend) {
    detail::gradient_norm(backend, gradients.arrays, request, memory);
    detail::scale_gradients(backend, gradients.arrays, request.scale, memory);
  });
  gradients.mark_changed();
  return norm;
}

void clip_grad_value(std::span<const Tensor> parameters, double max_value) {
  require(std::isfinite(max_value) && max_value >= 0,
          "clip_grad_value: max_value must be finite and not negative; got ", max_value);
  const Gradients gradients = collect("clip_grad_value", parameters);
  bevel::detail::TableMemory memory;
  on(gradients.device, [&](auto backend) { detail::clamp_gradients(backend, gradients.arrays, max_value, memory); });
  gradients.mark_changed();
}

}  // namespace bevel::nn
