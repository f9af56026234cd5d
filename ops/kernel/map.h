// map on the CPU: the one elementwise loop.
//
// map(Cpu{}, f, n, out, in...) sets out[i] = f(in[i]...) for 0 <= i < n, and map_broadcast the same with inputs
// broadcast as a plan says. f takes and returns compute types (float for the half types). An output may be one of the
// inputs itself, but must not overlap one in any other way.
//
// The loop exists once for each f and set of compute types. Whatever is not dense or not of its compute type is brought
// into that form block by block, in buffers that stay in the first cache: half precision and broadcasting cost no
// further instantiation.
#pragma once

#include <bevel/core/device.h>
#include <bevel/core/parallel.h>
#include <bevel/ops/kernel/broadcast.h>
#include <bevel/ops/kernel/isa.h>
#include <bevel/ops/kernel/pack.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace bevel::kernel {

namespace detail {

inline constexpr std::int64_t tile_elements = 1 << 14;  // a multiple of every N of map_blocks
inline constexpr std::int64_t block_elements = 512;

// Arguments by value: their addresses are not known to anybody, so the loop keeps them in registers.
template <class F, class Out, class... In>
[[gnu::always_inline]] inline void run_loop(F f, std::int64_t n, Out* out, const In*... in) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(in[i]...));
}

template <class F, class Out, class... In>
[[gnu::noinline]] void map_loop(const F& f, std::int64_t n, Out* out, const In*... in) {
  for_best_isa([&]() __attribute__((always_inline)) { run_loop(f, n, out, in...); });
}

// Converts and gathers input k for the output's elements begin .. begin + count.
template <class T, int K>
[[gnu::noinline]] void gather(const Broadcast<K>& plan, int k, std::int64_t begin, std::int64_t count, const T* in,
                              compute_t<T>* to) {
  const int last = plan.rank - 1;
  std::int64_t coordinate[Shape::max_rank] = {};
  std::int64_t offset = 0;
  for (std::int64_t axis = last, rest = begin; axis >= 0; --axis) {
    coordinate[axis] = rest % plan.size[axis];
    rest /= plan.size[axis];
    offset += coordinate[axis] * plan.stride[k][axis];
  }
  while (count > 0) {
    const std::int64_t run = std::min(count, plan.size[last] - coordinate[last]);
    const std::int64_t step = plan.stride[k][last];
    if (step == 0)
      std::fill_n(to, run, load(in[offset]));
    else
      std::transform(in + offset, in + offset + run, to, [](T stored) { return load(stored); });
    to += run;
    count -= run;
    coordinate[last] += run;
    offset += run * step;
    for (int axis = last; axis > 0 && coordinate[axis] == plan.size[axis]; --axis) {
      offset += plan.stride[k][axis - 1] - plan.size[axis] * plan.stride[k][axis];
      coordinate[axis] = 0;
      ++coordinate[axis - 1];
    }
  }
}

template <class To, class From>
[[gnu::noinline]] void convert(const From* from, std::int64_t count, To* to) {
  for_best_isa([&]() __attribute__((always_inline)) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
  });
}

// Input k as dense compute values: where they lie, or in `buffer`.
template <class T, int K>
const compute_t<T>* staged_input(const Broadcast<K>& plan, int k, std::int64_t begin, std::int64_t count, const T* in,
                                 compute_t<T>* buffer) {
  if (plan.access[k] != Access::dense) {
    gather(plan, k, begin, count, in, buffer);
  } else if constexpr (std::is_same_v<T, compute_t<T>>) {
    return in + begin;
  } else {
    convert(in + begin, count, buffer);
  }
  return buffer;
}

template <class T>
struct Buffer {
  Buffer() {}  // leaves the elements uninitialised
  compute_t<T> element[block_elements];
};

template <class F, class Out, class... In, int... k>
void map_block(std::integer_sequence<int, k...>, const F& f, const Broadcast<sizeof...(In)>& plan, std::int64_t begin,
               std::int64_t count, Out* out, const In*... in) {
  const auto with_buffers = [&](Buffer<In>&&... buffer) {
    if constexpr (std::is_same_v<Out, compute_t<Out>>) {
      map_loop(f, count, out + begin, staged_input(plan, k, begin, count, in, buffer.element)...);
    } else {
      compute_t<Out> result[block_elements];
      map_loop(f, count, result, staged_input(plan, k, begin, count, in, buffer.element)...);
      convert(result, count, out + begin);
    }
  };
  with_buffers(Buffer<In>()...);
}

}  // namespace detail

template <class F, class Out, class... In>
void map_broadcast(Cpu, const F& f, const Broadcast<sizeof...(In)>& plan, Out* out, const In*... in) {
  constexpr bool computes_as_stored = (std::is_same_v<Out, compute_t<Out>> && ... && std::is_same_v<In, compute_t<In>>);
  const bool direct = computes_as_stored && plan.all_dense();
  parallel_ranges(plan.numel, detail::tile_elements, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (computes_as_stored)
      if (direct) return detail::map_loop(f, end - begin, out + begin, (in + begin)...);
    for (; begin < end; begin += detail::block_elements)
      detail::map_block(std::make_integer_sequence<int, sizeof...(In)>(), f, plan, begin,
                        std::min(detail::block_elements, end - begin), out, in...);
  });
}

// The same without broadcasting.
template <class F, class Out, class... In>
void map(Cpu, const F& f, std::int64_t n, Out* out, const In*... in) {
  map_broadcast(Cpu{}, f, dense_plan<sizeof...(In)>(n), out, in...);
}

// Elements that know their place: block b is elements b N .. b N + N, the last one perhaps shorter, and
// f(b, in-pack...) returns Pack<compute_t<Out>, N>. Lanes beyond n are read as some element of the input.
template <int N, class F, class Out, class... In>
void map_blocks(Cpu, const F& f, std::int64_t n, Out* out, const In*... in) {
  parallel_ranges(n, detail::tile_elements, [&](std::int64_t begin, std::int64_t end) {
    for_best_isa([&]() __attribute__((always_inline)) {
      const std::int64_t full = begin + (end - begin) / N * N;
      for (std::int64_t i = begin; i < full; i += N) {
        const auto result = f(i / N, load_lanes<N>(in + i)...);
        for (int lane = 0; lane < N; ++lane) out[i + lane] = static_cast<Out>(result.lane[lane]);
      }
      if (full == end) return;
      const auto result = f(full / N, load_lanes<N>(in + full, end - full)...);
      for (std::int64_t i = full; i < end; ++i) out[i] = static_cast<Out>(result.lane[i - full]);
    });
  });
}

}  // namespace bevel::kernel
