// Parts of a tensor along one axis.
#pragma once

#include <bevel/core/tensor.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace bevel {

inline constexpr std::int64_t to_the_end = std::numeric_limits<std::int64_t>::max();

// Elements begin, begin + step, ... before `end` along `axis`; negative bounds count from the end. A view where that is
// one dense piece (step 1 and only axes of size 1 in front), else a copy. Error unless 0 <= begin <= end <= size and
// step >= 1. Its derivative writes into zeros.
Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end = to_the_end, std::int64_t step = 1);

// Element `index` along `axis`, without that axis.
Tensor select(const Tensor& x, int axis, std::int64_t index);

// Consecutive parts of the given sizes, which must sum to the size of `axis`; or of `size` each, the last may be
// smaller. One node for all parts: their gradients are concatenated.
std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, int axis = 0);
std::vector<Tensor> split(const Tensor& x, std::int64_t size, int axis = 0);

// `count` parts, as equal as split() with the size rounded up makes them; fewer where the axis is too short.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, int axis = 0);

namespace detail {
// Zeros of `shape`, but for elements begin, begin + step, ... along `axis`: those are x. The adjoint of slice.
Tensor embed(const Tensor& x, const Shape& shape, int axis, std::int64_t begin, std::int64_t step);
}  // namespace detail

}  // namespace bevel
