// The gate's one-read kernels, for both layouts.
//
// A block has one tile: a run of maps (NCHW), or a run of pixels of adjacent channels (NHWC). Its threads copy their
// packs of x (and dy) to slots of their own in shared memory, look at them once for sums, and once more, when these
// have been merged over the block and the cluster, for results. While one block of a multiprocessor waits for its
// copies or for others, the next ones compute: what matters is how many there are.
#pragma once

#include <bevel/ops/evonorm/detail/formula.h>
#include <bevel/core/cuda/launch.cuh>
#include <bevel/ops/evonorm/detail/carveout.cuh>
#include <bevel/ops/evonorm/detail/one_read_block.cuh>

namespace bevel::evo {

template <class T, int P, bool nhwc>
__global__ void __launch_bounds__(one_read_threads, 2)
    one_read_forward(const __grid_constant__ OneRead s, const __grid_constant__ OneReadForward f) {
  constexpr int K = nhwc ? P : 1;  // keys of a thread
  constexpr int stages = stages_of<T, P>;
  extern __shared__ __align__(16) float one_read_memory[];
  __shared__ Mailbox mailbox;
  const unsigned rank = s.cluster > 1 ? cluster_rank() : 0;
  const Board board(s, one_read_memory);
  const Share share = share_of<P, nhwc>(s, rank);
  gpu::begin_kernel();
  using Own = Slots<T, P>;
  const int slot_step = (nhwc ? static_cast<int>(blockDim.x) : s.lanes) * Own::bytes;
  const Own own{board.slots + share.slot * Own::bytes};
  {
    const T* from = static_cast<const T*>(f.x) + share.start;
    fetch_parameters<3>(s, share, board.parameters, {f.v, f.gamma, f.beta});
    for (int stage = 0, i = 0, slot = 0; stage < stages; ++stage) {
      const int end = stages == 1 ? share.count : min(share.count, i + s.stage_packs);
#pragma unroll 4
      for (; i < end; ++i, slot += slot_step, from += s.stride) own.fetch(slot, from);
      close_copies();
    }
  }
  if (s.cluster > 1) mailbox.open(s.exchange_floats * 4);
  wait_stage<stages>(0);

  // Moments of this warp's keys about the mean of their threads' first packs. That lies among the x: with a share f of
  // all of them, it is off by at most sqrt((1 - f) / f) deviations, and `squares` loses that much to cancellation at
  // most.
  float mean[K] = {}, counts[2];
  if (share.count > 0) {
    const Held<T, P> pack = own.get(0);
#pragma unroll
    for (int p = 0; p < P; ++p) mean[nhwc ? p : 0] += pack[p];
  }
  counts[0] = static_cast<float>(share.count > 0 ? (nhwc && !s.coarse ? 1 : P) : 0);
  counts[1] = static_cast<float>(share.count * (nhwc && !s.coarse ? 1 : P));
  key_sums<nhwc>(s, counts);
  if (nhwc && s.coarse) {
#pragma unroll
    for (int p = 1; p < K; ++p) mean[0] += mean[p];
    float one[1] = {mean[0]};
    key_sums<nhwc>(s, one);
#pragma unroll
    for (int p = 0; p < K; ++p) mean[p] = one[0];
  } else {
    key_sums<nhwc>(s, mean);
  }
  const float share_of_first = counts[0] > 0 ? __fdividef(1.0f, counts[0]) : 0.0f;
#pragma unroll
  for (int p = 0; p < K; ++p) mean[p] *= share_of_first;

  float sums[2 * K] = {};  // of differences from the mean, and of their squares
  int slot = 0;
  for (int stage = 0, i = 0; stage < stages; ++stage) {
    const int end = stages == 1 ? share.count : min(share.count, i + s.stage_packs);
    wait_stage<stages>(stage);
#pragma unroll 2
    for (; i < end; ++i, slot += slot_step) {
      const Held<T, P> pack = own.get(slot);
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const int k = nhwc ? p : 0;
        const float difference = pack[p] - mean[k];
        sums[2 * k] += difference;
        sums[2 * k + 1] += difference * difference;
      }
    }
  }
  const float one_share = counts[1] > 0 ? __fdividef(1.0f, counts[1]) : 0.0f;
  const int part = nhwc ? static_cast<int>(threadIdx.x) / 32 : 0;
  const bool writes =
      nhwc ? static_cast<int>(threadIdx.x) % 32 < s.lanes : (static_cast<int>(threadIdx.x) & (s.key_lanes - 1)) == 0;
  const auto publish = [&](int at, float about, float rest, float squares) {
    rest *= one_share;
    reinterpret_cast<float4*>(board.partial)[at] = {counts[1], about, rest, squares - rest * rest * counts[1]};
  };
  if (!nhwc || s.coarse) {
#pragma unroll
    for (int p = 1; p < K; ++p) {
      sums[0] += sums[2 * p];
      sums[1] += sums[2 * p + 1];
    }
    float two[2] = {sums[0], sums[1]};
    key_sums<nhwc>(s, two);
    const int at = nhwc ? share.lane + part * s.part_step : static_cast<int>(threadIdx.x) >> s.key_shift;
    if (writes) publish(at, mean[0], two[0], two[1]);
  } else {
    key_sums<nhwc>(s, sums);
    if (writes)
#pragma unroll
      for (int p = 0; p < K; ++p) publish(share.local + p + part * s.part_step, mean[p], sums[2 * p], sums[2 * p + 1]);
  }
  __syncthreads();
  merge_groups<Moments, 4>(
      s, rank, mailbox, board.exchange, s.group_keys * s.parts,
      [&](int g, int j, float(&value)[4]) {
        const int key = g * s.group_keys + (j >> s.parts_shift), part_of_key = (j & (s.parts - 1));
        read_row(board.partial + 4 * (key * s.key_step + part_of_key * s.part_step), value);
      },
      [] {},
      [&](int g, const float(&m)[4]) {
        const float about = s.about_zero ? (m[1] + m[2]) * (m[1] + m[2]) : 0.0f;
        const float rstd = 1.0f / sqrtf(m[3] / m[0] + about + s.eps);
        board.results[g] = rstd;
        const int group = s.group_of(share.map) + g;
        if (rank == 0 && group < s.slices) {
          f.slice[group] = m[1];
          f.slice[s.slices + group] = m[2];
          f.slice[2 * s.slices + group] = rstd;
        }
      });

  float v[K], scale[K], beta[K], rstd[K];
  read_row(board.parameters + share.local, v);
  read_row(board.parameters + s.block_channels + share.local, scale);
  read_row(board.parameters + 2 * s.block_channels + share.local, beta);
  read_results<nhwc>(s, board.results, share.local, rstd);
#pragma unroll
  for (int p = 0; p < K; ++p) {
    v[p] *= -1.44269504f;
    scale[p] *= rstd[p];
  }
  slot = 0;
  T* to = static_cast<T*>(f.y) + share.start;
#pragma unroll 2
  for (int i = 0; i < share.count; ++i, slot += slot_step, to += s.stride) {
    Held<T, P> pack = own.get(slot);
    float value[P];
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int k = nhwc ? p : 0;
      const float q = reciprocal(1.0f + power_of_two(v[k] * pack[p]));
      value[p] = pack[p] * scale[k] * q + beta[k];
    }
    pack.set(value);
    pack.store_streaming(to);
  }
}

template <class T, int P, bool nhwc>
__global__ void __launch_bounds__(one_read_threads, 2)
    one_read_backward(const __grid_constant__ OneRead s, const __grid_constant__ OneReadBackward b) {
  constexpr int K = nhwc ? P : 1, stages = stages_of<T, P>;
  extern __shared__ __align__(16) float one_read_memory[];
  __shared__ Mailbox mailbox;
  const unsigned rank = s.cluster > 1 ? cluster_rank() : 0;
  const Board board(s, one_read_memory);
  const Share share = share_of<P, nhwc>(s, rank);
  gpu::begin_kernel();
  const int thread = static_cast<int>(threadIdx.x);
  using Own = Slots<T, P>;
  const int slot_step = (nhwc ? static_cast<int>(blockDim.x) : s.lanes) * Own::bytes;
  const int other = s.array_bytes;  // from a slot of x to that of dy
  const Own own{board.slots + share.slot * Own::bytes};
  {
    const T* from = static_cast<const T*>(b.x) + share.start;
    const T* from_dy = static_cast<const T*>(b.dy) + share.start;
    fetch_parameters<2>(s, share, board.parameters, {b.v, b.gamma});
    for (int g = thread; g < s.block_groups; g += static_cast<int>(blockDim.x)) {
      const int group = min(s.group_of(share.map) + g, s.slices - 1);
#pragma unroll
      for (int k = 0; k < 3; ++k)  // mean in two parts, 1 / deviation
        copy_async<4>(shared_address(board.results + k * s.block_groups + g), b.slice + k * s.slices + group);
    }
    for (int stage = 0, i = 0, slot = 0; stage < stages; ++stage) {
      const int end = stages == 1 ? share.count : min(share.count, i + s.stage_packs);
#pragma unroll 2
      for (; i < end; ++i, slot += slot_step, from += s.stride, from_dy += s.stride) {
        own.fetch(slot, from);
        own.fetch(slot + other, from_dy);
      }
      close_copies();
    }
  }
  if (s.cluster > 1) mailbox.open(s.exchange_floats * 4);
  wait_stage<stages>(0);
  __syncthreads();  // the parameters are there

  float v[K], sum[3 * K] = {};
  read_row(board.parameters + share.local, v);
  int slot = 0;
  for (int stage = 0, i = 0; stage < stages; ++stage) {
    const int end = stages == 1 ? share.count : min(share.count, i + s.stage_packs);
    wait_stage<stages>(stage);
#pragma unroll 2
    for (; i < end; ++i, slot += slot_step) {
      const Held<T, P> from = own.get(slot);
      Held<T, P> upstream = own.get(slot + other);
      float value[P];
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const int k = nhwc ? p : 0;
        const float x_p = from[p], dy_p = upstream[p];
        const float z = v[k] * x_p;
        const float q = reciprocal(1.0f + power_of_two(-1.44269504f * z));
        const float r = 1.0f - q, dq = dy_p * q, h = dq * x_p;
        sum[k] += h;
        sum[K + k] += dy_p;
        sum[2 * K + k] += h * (x_p * r);
        value[p] = dq * (1.0f + z * r);
      }
      upstream.set(value);
      own.put(slot + other, upstream);
    }
  }
  key_sums<nhwc>(s, sum);
  if (nhwc ? thread % 32 < s.lanes : (thread & (s.key_lanes - 1)) == 0) {
    float* to = board.partial + (nhwc ? share.local + thread / 32 * s.part_step : thread >> s.key_shift);
#pragma unroll
    for (int k = 0; k < 3; ++k, to += s.partial_pitch) {
      if constexpr (K % 4 == 0) {
#pragma unroll
        for (int p = 0; p < K; p += 4)
          *reinterpret_cast<float4*>(to + p) = {sum[k * K + p], sum[k * K + p + 1], sum[k * K + p + 2],
                                                sum[k * K + p + 3]};
      } else {
        to[0] = sum[k];
      }
    }
  }
  __syncthreads();
  const float* const gamma = board.parameters + s.block_channels;
  const float* const rstds = board.results + 2 * s.block_groups;
  float* const through_of = board.results + 3 * s.block_groups;
  float* const offset_of = board.results + 4 * s.block_groups;
  merge_groups<Add, 1>(
      s, rank, mailbox, board.exchange, s.group_channels * s.parts,
      [&](int g, int j, float(&value)[1]) {
        const int key = g * s.group_channels + (j >> s.parts_shift), part = (j & (s.parts - 1));
        value[0] = gamma[key] * board.partial[key * s.key_step + part * s.part_step];
      },
      [&] {
        for (int j = thread; j < 3 * s.block_channels; j += static_cast<int>(blockDim.x)) {
          const int k = j >= s.block_channels ? (j >= 2 * s.block_channels ? 2 : 1) : 0;
          const int key = j - k * s.block_channels;
          float total = 0;
          const float* part = board.partial + k * s.partial_pitch + key * s.key_step;
          for (int i = 0; i < s.parts; ++i) total += part[i * s.part_step];
          if (share.map + key >= s.maps) continue;
          const float rstd = rstds[s.group_of_local(key)];
          const std::int64_t at =
              nhwc ? std::int64_t{share.sample * s.cluster + static_cast<int>(rank)} * s.channels + share.channel + key
                   : share.map + key;
          b.sums[k * s.plane + at] = k == 0 ? rstd * total : k == 1 ? total : gamma[key] * rstd * total;
        }
      },
      [&](int g, const float(&product)[1]) {
        const float rstd = rstds[g];
        const float through = -rstd * rstd * (rstd * product[0] / s.group_elements);
        through_of[g] = through;
        offset_of[g] = through * (s.about_zero ? board.results[g] : -board.results[s.block_groups + g]);
      });
  if (b.dx == nullptr) return;

  float scale[K], through[K], pivot[K], offset[K];
  read_row(gamma + share.local, scale);
  read_results<nhwc>(s, rstds, share.local, through);
#pragma unroll
  for (int p = 0; p < K; ++p) scale[p] *= through[p];
  read_results<nhwc>(s, board.results, share.local, pivot);
  read_results<nhwc>(s, through_of, share.local, through);
  read_results<nhwc>(s, offset_of, share.local, offset);
  slot = 0;
  T* to = static_cast<T*>(b.dx) + share.start;
#pragma unroll 2
  for (int i = 0; i < share.count; ++i, slot += slot_step, to += s.stride) {
    const Held<T, P> from = own.get(slot);
    Held<T, P> slope = own.get(slot + other);
    float value[P];
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int k = nhwc ? p : 0;
      value[p] = slope[p] * scale[k] + ((from[p] - pivot[k]) * through[k] + offset[k]);
    }
    slope.set(value);
    slope.store_streaming(to);
  }
}

// --- launching ---

// pack_bytes: of the kernel's packs.
template <class... Parameters, class Arguments>
void launch_one_read(const raw::OnStream& where, const Residency& r, const OneRead& s, Pass pass, const char* name,
                     void (*kernel)(Parameters...), std::size_t pack_bytes, const Arguments& arguments) {
  const int bytes = s.shared_bytes(pass);
  if (bytes > 47 * 1024)  // beside the mailbox
    gpu::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), name);
  if (pack_bytes == 16) prefer_shared_memory(kernel, name);  // shorter copies go through the first-level cache
  gpu::launch(kernel,
              {.blocks = dim3(static_cast<unsigned>(s.tiles) * static_cast<unsigned>(s.cluster)),
               .threads = dim3(static_cast<unsigned>(r.threads)),
               .shared_bytes = static_cast<std::size_t>(bytes),
               .stream = static_cast<cudaStream_t>(where.stream),
               .cluster = static_cast<unsigned>(r.cluster)},
              name, s, arguments);
}

// Calls f<T>() for the dtypes of the one-read kernels.
template <class F>
void visit_one_read(Dtype dtype, const F& f) {
  if (dtype == f32) return f.template operator()<float>();
  if (dtype == bf16) return f.template operator()<bfloat16>();
  if (dtype == f16) return f.template operator()<float16>();
  fail("evonorm: no one-read kernel for ", dtype);
}

}  // namespace bevel::evo
