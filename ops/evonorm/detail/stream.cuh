// A thread's packs, copied ahead of their use, and the coefficients that are applied to them.
#pragma once

#include <bevel/ops/kernel/pack.h>
#include <bevel/ops/evonorm/detail/async.cuh>
#include <bevel/ops/evonorm/detail/held.cuh>
#include <bevel/ops/evonorm/detail/merging.cuh>

namespace bevel::evo {

template <int P, class T>
__device__ inline void load(const T* from, compute_t<T> (&to)[P]) {
  if constexpr (sizeof(T) == 8) {
    const auto pack = *reinterpret_cast<const kernel::Pack<T, P>*>(from);
#pragma unroll
    for (int p = 0; p < P; ++p) to[p] = pack.lane[p];
  } else {
    Held<T, P> held;
    held.load(from);
#pragma unroll
    for (int p = 0; p < P; ++p) to[p] = held[p];
  }
}

template <int P, class T>
__device__ inline void store(T* to, const compute_t<T> (&from)[P]) {
  if constexpr (sizeof(T) == 8) {
    kernel::Pack<T, P> pack;
#pragma unroll
    for (int p = 0; p < P; ++p) pack.lane[p] = from[p];
    *reinterpret_cast<kernel::Pack<T, P>*>(to) = pack;
  } else {
    Held<T, P> held;
    held.set(from);
    held.store_streaming(to);
  }
}

// Goes over a thread's packs of one or two arrays while later ones are on their way: `batch` packs of each at a time,
// `depth` batches in shared memory. consume(slots, n) finds pack r < n of array a at slots + (r * arrays + a) * pitch.
template <class T, int P, int arrays>
struct Stream {
  static constexpr int batch = 4 / arrays, depth = 3;
  static constexpr int bytes = P * static_cast<int>(sizeof(T)) < 4 ? 4 : P * static_cast<int>(sizeof(T));
  static constexpr int pitch = block_threads * bytes, stage_bytes = batch * arrays * pitch;
  static_assert(depth * stage_bytes <= block_memory);

  const T* from[arrays];
  std::int64_t stride;
  int ahead;  // packs not yet asked for
  char* own;

  __device__ void fetch(int stage) {
    char* to = own + stage * stage_bytes;
#pragma unroll
    for (int r = 0; r < batch; ++r)
      if (r < ahead)
#pragma unroll
        for (int a = 0; a < arrays; ++a) {
          char* const slot = to + (r * arrays + a) * pitch;
          if constexpr (P * sizeof(T) >= 4)
            copy_async<P* static_cast<int>(sizeof(T))>(shared_address(slot), from[a]);
          else
            *reinterpret_cast<T*>(slot) = *from[a];
          from[a] += stride;
        }
    ahead -= batch;
    close_copies();
  }

  // Asks for the first batches; run() follows.
  __device__ void start(int count) {
    ahead = count;
#pragma unroll
    for (int d = 0; d < depth - 1; ++d) fetch(d);
  }

  template <class Consume>
  __device__ void run(int count, const Consume& consume) {
    int stage = 0, next = depth - 1;
    for (int rest = count; rest > 0; rest -= batch) {
      fetch(next);
      wait_copies<depth - 1>();
      consume(own + stage * stage_bytes, rest < batch ? rest : batch);
      stage = stage == depth - 1 ? 0 : stage + 1;
      next = next == depth - 1 ? 0 : next + 1;
    }
  }
};

// The next coefficient of K channels, from a row of a table, by twos if the row is aligned for it.
template <bool by_twos, int K, class A>
__device__ inline void read_coefficient(const A* row, A (&to)[K]) {
  if constexpr (by_twos) {
#pragma unroll
    for (int p = 0; p < K; p += 2) {
      const float2 two = *reinterpret_cast<const float2*>(row + p);
      to[p] = two.x;
      to[p + 1] = two.y;
    }
  } else {
#pragma unroll
    for (int p = 0; p < K; ++p) to[p] = row[p];
  }
}

template <bool by_twos, class Formula, int K, class A>
__device__ inline void read_coefficients(const A* row, std::int64_t step, Formula (&formula)[K]) {
#pragma unroll
  for (int k = 0; k < Formula::coefficients; ++k, row += step) {
    A value[K];
    read_coefficient<by_twos>(row, value);
#pragma unroll
    for (int p = 0; p < K; ++p) reinterpret_cast<A*>(&formula[p])[k] = value[p];
  }
}

// Coefficients of K channels, from a table of rows of channels: row k of sample n begins at (k * samples + n) *
// channels, or at k * channels where the table is shared by all samples. Without a table they are 1.
template <class Formula, int K, class A>
__device__ inline void load_coefficients(const A* table, bool shared, const Tiling& t, const Place& at,
                                         Formula (&formula)[K]) {
  static_assert(sizeof(Formula) == sizeof(A) * Formula::coefficients, "a formula's members are its coefficients");
  if (table == nullptr) {
#pragma unroll
    for (int p = 0; p < K; ++p)
#pragma unroll
      for (int k = 0; k < Formula::coefficients; ++k) reinterpret_cast<A*>(&formula[p])[k] = 1;
    return;
  }
  const A* const row = table + (shared ? 0 : at.sample * t.channels) + at.channel;
  const std::int64_t step = shared ? t.channels : t.samples * t.channels;
  if constexpr (K % 2 == 0 && sizeof(A) == 4) {
    if (reinterpret_cast<std::uintptr_t>(table) % 8 == 0) return read_coefficients<true>(row, step, formula);
  }
  read_coefficients<false>(row, step, formula);
}

}  // namespace bevel::evo
