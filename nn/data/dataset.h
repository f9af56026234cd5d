// Datasets: what a DataLoader reads. A dataset is any class with `size()` and one of two ways to hand out a sample;
// both are called from worker threads, several at a time, so they are const and share no changing state. What is random
// in a sample should follow from its index and the epoch alone: then training can be repeated.
#pragma once

#include <bevel/core/tensor.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>

namespace bevel {

// What one part of a sample is like.
struct TensorSpec {
  Shape shape;
  Dtype dtype = f32;
};

namespace detail {

template <class T>
inline constexpr bool is_tensors = false;
template <class... T>
inline constexpr bool is_tensors<std::tuple<T...>> = (std::same_as<T, Tensor> && ...);
template <>
inline constexpr bool is_tensors<std::pair<Tensor, Tensor>> = true;
template <std::size_t n>
inline constexpr bool is_tensors<std::array<Tensor, n>> = true;

template <class T>
inline constexpr bool is_specs = false;
template <std::size_t n>
inline constexpr bool is_specs<std::array<TensorSpec, n>> = true;

template <class D>
concept Sized = requires(const D& dataset) {
  { dataset.size() } -> std::convertible_to<std::int64_t>;
};

}  // namespace detail

// Writes samples in place: specs() tells shapes and dtypes of the parts as a std::array<TensorSpec, n>, and
// fill(index, epoch, slots) writes part k of the sample into slots[k], a CPU tensor of that shape within the batch.
template <class D>
concept FillDataset =
    detail::Sized<D> && requires(const D& dataset, std::int64_t index, std::int64_t epoch, std::span<Tensor> slots) {
      requires detail::is_specs<decltype(dataset.specs())>;
      dataset.fill(index, epoch, slots);
    };

// Returns samples: get(index, epoch) or get(index) gives a pair, tuple or array of CPU tensors, which are copied into
// the batch. All samples have the same shapes and dtypes.
template <class D>
concept GetEpochDataset = detail::Sized<D> && requires(const D& dataset, std::int64_t i) {
  requires detail::is_tensors<decltype(dataset.get(i, i))>;
};
template <class D>
concept GetDataset = detail::Sized<D> && requires(const D& dataset, std::int64_t i) {
  requires detail::is_tensors<decltype(dataset.get(i))>;
};

template <class D>
concept Dataset = FillDataset<D> || GetEpochDataset<D> || GetDataset<D>;

namespace detail {

template <class D>
constexpr std::size_t parts_of() {
  if constexpr (FillDataset<D>)
    return std::tuple_size_v<decltype(std::declval<const D&>().specs())>;
  else if constexpr (GetEpochDataset<D>)
    return std::tuple_size_v<decltype(std::declval<const D&>().get(0, 0))>;
  else
    return std::tuple_size_v<decltype(std::declval<const D&>().get(0))>;
}

template <class D>
auto get_sample(const D& dataset, std::int64_t index, std::int64_t epoch) {
  const auto to_array = [](auto&&... parts) { return std::array{Tensor(parts)...}; };
  if constexpr (GetEpochDataset<D>)
    return std::apply(to_array, dataset.get(index, epoch));
  else
    return std::apply(to_array, dataset.get(index));
}

}  // namespace detail

}  // namespace bevel
