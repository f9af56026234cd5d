// Broadcasting: how each of K dense inputs is read for every element of a dense output.
#pragma once

#include <bevel/core/hostdevice.h>
#include <bevel/core/shape.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace bevel::kernel {

// How the offset in an input follows from the index i in the output.
enum class Access : std::uint8_t {
  dense,   // i
  scalar,  // 0
  suffix,  // i % period: the input has the last axes only
  strided  // by coordinates
};

// The output's axes, outermost first, neighbours joined where no input tells them apart. Since all tensors are dense,
// the innermost stride of an input is 0 or 1.
template <int K>
struct Broadcast {
  static constexpr int inputs = K;

  std::int64_t numel = 0;
  int rank = 0;
  std::int64_t size[Shape::max_rank] = {};
  std::int64_t stride[K][Shape::max_rank] = {};  // in elements; 0 along a broadcast axis
  Access access[K] = {};
  std::int64_t period[K] = {};

  bool all_dense() const {
    return std::all_of(access, access + K, [](Access a) { return a == Access::dense; });
  }

  // The offset in input k of the element that goes with the output's element i.
  BEVEL_HD std::int64_t offset(int k, std::int64_t i) const {
    if (access[k] == Access::dense) return i;
    if (access[k] == Access::scalar) return 0;
    const bool small = numel <= INT32_MAX;  // 32-bit division is several times as fast
    if (access[k] == Access::suffix)
      return small ? static_cast<std::uint32_t>(i) % static_cast<std::uint32_t>(period[k]) : i % period[k];
    std::int64_t result = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (int axis = rank - 1; axis >= 0; --axis) {
      const std::int64_t extent = size[axis];
      const std::int64_t rest = small ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(extent) : i / extent;
      result += (i - rest * extent) * stride[k][axis];
      i = rest;
    }
    return result;
  }
};

// `output` must be the shape to which the shapes `in` broadcast.
template <int K>
Broadcast<K> plan_broadcast(const Shape& output, const std::array<Shape, K>& in);

extern template Broadcast<1> plan_broadcast<1>(const Shape&, const std::array<Shape, 1>&);
extern template Broadcast<2> plan_broadcast<2>(const Shape&, const std::array<Shape, 2>&);
extern template Broadcast<3> plan_broadcast<3>(const Shape&, const std::array<Shape, 3>&);

// No broadcasting: n elements in every input.
template <int K>
Broadcast<K> dense_plan(std::int64_t n) {
  Broadcast<K> plan;
  plan.numel = n;
  plan.rank = 1;
  plan.size[0] = n;
  for (int k = 0; k < K; ++k) {
    plan.stride[k][0] = 1;
    plan.period[k] = n;
  }
  return plan;
}

}  // namespace bevel::kernel
