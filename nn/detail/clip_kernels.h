// What gradient clipping asks of a backend. T is float or double.
#pragma once

#include <bevel/core/device.h>
#include <bevel/nn/detail/chunks.h>

#include <cstdint>
#include <span>

namespace bevel::nn::detail {

template <class T>
struct Array {
  T* data = nullptr;
  std::int64_t size = 0;
};

// Chunks of `chunk_size` elements that arrays of this size are cut into.
inline std::int64_t chunk_count(std::int64_t size) {
  return (size + bevel::detail::chunk_size - 1) / bevel::detail::chunk_size;
}

// The sum of squares of each chunk, in order of arrays and chunks.
template <class T>
void square_sums(Cpu backend, std::span<const Array<T>> arrays, double* sums);
template <class T>
void square_sums(Cuda backend, std::span<const Array<T>> arrays, double* sums);

// norm = sqrt(sum of sums), scale = min(1, max_norm / (norm + 1e-6)).
void norm_and_scale(Cpu backend, const double* sums, std::int64_t count, double max_norm, double* norm, double* scale);
void norm_and_scale(Cuda backend, const double* sums, std::int64_t count, double max_norm, double* norm, double* scale);

// Multiplies by *scale, a number on the device; nothing is written where it is 1.
template <class T>
void scale_arrays(Cpu backend, std::span<const Array<T>> arrays, const double* scale);
template <class T>
void scale_arrays(Cuda backend, std::span<const Array<T>> arrays, const double* scale);

template <class T>
void clamp_arrays(Cpu backend, std::span<const Array<T>> arrays, T limit);
template <class T>
void clamp_arrays(Cuda backend, std::span<const Array<T>> arrays, T limit);

}  // namespace bevel::nn::detail
