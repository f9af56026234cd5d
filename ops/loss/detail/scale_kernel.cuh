// Multiplication of a gradient by one number in device memory.
#pragma once

#include <bevel/ops/loss/detail/tiles.cuh>

namespace bevel::detail {

template <class T>
__global__ void __launch_bounds__(loss_threads)
    scale_kernel(const __grid_constant__ raw::GradientScale scale, std::int64_t packs) {
  using C = compute_t<T>;
  constexpr int width = loss_width<T>;
  gpu::begin_kernel();
  const Number<C> f = AnyElements<C>{scale.factor_is_half ? scale.dtype : dtype_of<C>}.load(scale.factor, 0);
  if (f.value == 1 && scale.from == scale.to) return;
  const T* from = static_cast<const T*>(scale.from);
  T* to = static_cast<T*>(scale.to);
  const auto scaled = [f](T value) { return round_to<T>((Number<C>(static_cast<C>(value)) * f).value); };
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * loss_threads;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * loss_threads + threadIdx.x;
  for (std::int64_t p = thread; p < packs; p += stride) {
    LossPack<T> pack = reinterpret_cast<const LossPack<T>*>(from)[p];
    for (int k = 0; k < width; ++k) pack.at[k] = scaled(pack.at[k]);
    store_pack(to, p, pack);
  }
  for (std::int64_t i = packs * width + thread; i < scale.count; i += stride) to[i] = scaled(from[i]);
}

template <class T>
void launch_scale_as(const raw::OnStream& where, const raw::GradientScale& scale) {
  const bool packable =
      (reinterpret_cast<std::uintptr_t>(scale.from) | reinterpret_cast<std::uintptr_t>(scale.to)) % 16 == 0;
  const std::int64_t packs = packable ? scale.count / loss_width<T> : 0;
  gpu::launch(scale_kernel<T>,
              {.blocks = loss_stride_blocks(packs ? packs : scale.count),
               .threads = loss_threads,
               .stream = static_cast<cudaStream_t>(where.stream)},
              "scale_kernel", scale, packs);
}

inline void launch_scale(const raw::OnStream& where, const raw::GradientScale& scale) {
  if (scale.count == 0) return;
  visit_floating(scale.dtype, "loss", [&]<class T>() { launch_scale_as<T>(where, scale); });
}

}  // namespace bevel::detail
