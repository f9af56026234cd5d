// map on CUDA: the one elementwise kernel, in a dense and a broadcasting form. Contract as in map.h.
//
// A thread moves packs of up to 16 bytes and strides over the grid. Views that are not aligned to packs, and the last
// elements that do not fill one, go element by element in the same kernel.
#pragma once

#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/kernel/broadcast.h>
#include <bevel/ops/kernel/pack.h>
#include <bevel/core/cuda/launch.cuh>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace bevel::kernel {

namespace detail {

inline constexpr int map_threads = 256;
inline constexpr int map_blocks_per_multiprocessor = 8;

// Threads for `work` packs or elements, on the current stream.
inline gpu::LaunchShape map_shape(Cuda backend, std::int64_t work) {
  const std::int64_t full = std::int64_t{map_blocks_per_multiprocessor} * gpu::multiprocessors(backend.device);
  const std::int64_t blocks = std::clamp<std::int64_t>((work + map_threads - 1) / map_threads, 1, full);
  return {.blocks = static_cast<unsigned>(blocks), .threads = map_threads, .stream = gpu::stream(backend)};
}

__device__ inline std::int64_t first_index() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t index_step() {
  return std::int64_t{gridDim.x} * blockDim.x;
}

template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* data) {
  return *reinterpret_cast<const Pack<T, N>*>(data);
}

template <int N, class Out, class F, class... In>
__device__ __forceinline__ void store_pack(Out* out, const F& f, const Pack<In, N>&... in) {
  Pack<Out, N> result;
#pragma unroll
  for (int lane = 0; lane < N; ++lane) result.lane[lane] = store<Out>(f(load(in.lane[lane])...));
  *reinterpret_cast<Pack<Out, N>*>(out) = result;
}

// `in_packs` elements, a multiple of N, go as packs; the rest one by one.
template <int N, class F, class Out, class... In>
__global__ void __launch_bounds__(map_threads)
    map_kernel(F f, std::int64_t n, std::int64_t in_packs, Out* out, const In*... in) {
  gpu::begin_kernel();
  for (std::int64_t i = first_index() * N; i < in_packs; i += index_step() * N)
    store_pack<N>(out + i, f, load_pack<N>(in + i)...);
  for (std::int64_t i = in_packs + first_index(); i < n; i += index_step()) out[i] = store<Out>(f(load(in[i])...));
}

// Out of line: inlined for every lane of every input, the divisions are most of what the compiler has to do.
template <int K>
__device__ __noinline__ std::int64_t broadcast_offset(const Broadcast<K>& plan, int k, std::int64_t i) {
  return plan.offset(k, i);
}

// Elements i .. i + N of the output's index in input k. `packs` has bit k set where input k may be read as packs.
template <int N, class T, int K>
__device__ __forceinline__ Pack<T, N> load_broadcast(const Broadcast<K>& plan, int k, unsigned packs, const T* in,
                                                     std::int64_t i) {
  if (packs >> k & 1) return load_pack<N>(in + broadcast_offset(plan, k, i));
  Pack<T, N> pack;
  if (plan.access[k] == Access::scalar) {
    const T element = in[0];
#pragma unroll
    for (int lane = 0; lane < N; ++lane) pack.lane[lane] = element;
  } else {
#pragma unroll
    for (int lane = 0; lane < N; ++lane) pack.lane[lane] = in[broadcast_offset(plan, k, i + lane)];
  }
  return pack;
}

template <int N, class F, class Out, class... In, int... k>
__device__ __forceinline__ void map_broadcast_elements(std::integer_sequence<int, k...>, const F& f,
                                                       const Broadcast<sizeof...(In)>& plan, unsigned packs,
                                                       std::int64_t in_packs, Out* out, const In*... in) {
  for (std::int64_t i = first_index() * N; i < in_packs; i += index_step() * N)
    store_pack<N>(out + i, f, load_broadcast<N>(plan, k, packs, in, i)...);
  for (std::int64_t i = in_packs + first_index(); i < plan.numel; i += index_step())
    out[i] = store<Out>(f(load(in[broadcast_offset(plan, k, i)])...));
}

template <int N, class F, class Out, class... In>
__global__ void __launch_bounds__(map_threads)
    map_broadcast_kernel(F f, const __grid_constant__ Broadcast<sizeof...(In)> plan, unsigned packs,
                         std::int64_t in_packs, Out* out, const In*... in) {
  gpu::begin_kernel();
  map_broadcast_elements<N>(std::make_integer_sequence<int, sizeof...(In)>(), f, plan, packs, in_packs, out, in...);
}

template <int N, class T>
__device__ __forceinline__ Pack<compute_t<T>, N> load_block(const T* data, bool aligned, std::int64_t count) {
  if (!aligned) return load_lanes<N>(data, count);
  const Pack<T, N> stored = load_pack<N>(data);
  Pack<compute_t<T>, N> pack;
#pragma unroll
  for (int lane = 0; lane < N; ++lane) pack.lane[lane] = load(stored.lane[lane]);
  return pack;
}

template <int N, class F, class Out, class... In>
__global__ void __launch_bounds__(map_threads)
    map_blocks_kernel(F f, std::int64_t n, bool aligned, Out* out, const In*... in) {
  gpu::begin_kernel();
  for (std::int64_t i = first_index() * N; i < n; i += index_step() * N) {
    const bool whole = aligned && n - i >= N;
    const auto result = f(i / N, load_block<N>(in + i, whole, n - i)...);
    Pack<Out, N> stored;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) stored.lane[lane] = static_cast<Out>(result.lane[lane]);
    if (whole) {
      *reinterpret_cast<Pack<Out, N>*>(out + i) = stored;
    } else {
#pragma unroll
      for (int lane = 0; lane < N; ++lane)
        if (i + lane < n) out[i + lane] = stored.lane[lane];
    }
  }
}

// Whether input k may be read as packs of N elements, at every multiple of N.
template <int N, class T, int K>
bool readable_as_packs(const Broadcast<K>& plan, int k, const T* in) {
  if (!aligned_for_packs<N>(in)) return false;
  return plan.access[k] == Access::dense || (plan.access[k] == Access::suffix && plan.period[k] % N == 0);
}

template <int N, class... In, int... k>
unsigned pack_bits(std::integer_sequence<int, k...>, const Broadcast<sizeof...(In)>& plan, const In*... in) {
  return ((static_cast<unsigned>(readable_as_packs<N>(plan, k, in)) << k) | ...);
}

}  // namespace detail

template <class F, class Out, class... In>
void map(Cuda backend, const F& f, std::int64_t n, Out* out, const In*... in) {
  if (n == 0) return;
  constexpr int lanes = pack_lanes<Out, In...>;
  const bool aligned = (aligned_for_packs<lanes>(out) && ... && aligned_for_packs<lanes>(in));
  const std::int64_t in_packs = aligned ? n / lanes * lanes : 0;
  const std::int64_t work = aligned ? std::max<std::int64_t>(n / lanes, lanes) : n;
  const gpu::DeviceGuard guard(backend.device);
  gpu::launch(detail::map_kernel<lanes, F, Out, In...>, detail::map_shape(backend, work), "map", f, n, in_packs, out,
              in...);
}

template <class F, class Out, class... In>
void map_broadcast(Cuda backend, const F& f, const Broadcast<sizeof...(In)>& plan, Out* out, const In*... in) {
  if (plan.all_dense()) return map(backend, f, plan.numel, out, in...);
  if (plan.numel == 0) return;
  constexpr int lanes = pack_lanes<Out, In...>;
  const bool aligned = aligned_for_packs<lanes>(out);
  const unsigned packs = detail::pack_bits<lanes>(std::make_integer_sequence<int, sizeof...(In)>(), plan, in...);
  const std::int64_t in_packs = aligned ? plan.numel / lanes * lanes : 0;
  const std::int64_t work = aligned ? std::max<std::int64_t>(plan.numel / lanes, lanes) : plan.numel;
  const gpu::DeviceGuard guard(backend.device);
  gpu::launch(detail::map_broadcast_kernel<lanes, F, Out, In...>, detail::map_shape(backend, work), "map_broadcast", f,
              plan, packs, in_packs, out, in...);
}

template <int N, class F, class Out, class... In>
void map_blocks(Cuda backend, const F& f, std::int64_t n, Out* out, const In*... in) {
  if (n == 0) return;
  const bool aligned = (aligned_for_packs<N>(out) && ... && aligned_for_packs<N>(in));
  const gpu::DeviceGuard guard(backend.device);
  gpu::launch(detail::map_blocks_kernel<N, F, Out, In...>, detail::map_shape(backend, (n + N - 1) / N), "map_blocks", f,
              n, aligned, out, in...);
}

}  // namespace bevel::kernel
