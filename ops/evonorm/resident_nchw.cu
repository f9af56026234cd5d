// One-read kernels of the gate in NCHW. `lanes` adjacent threads hold a map, so that sums over a map are sums over
// lanes; the block's maps lie one after the other, and so do those of the cluster.
#include <bevel/ops/evonorm/detail/resident.cuh>

namespace bevel::evo {

namespace {

// Where a thread stands. Its slot of shared memory is that of its warp, or of its map where that is smaller.
struct MapPlace {
  std::int64_t map, group, channel;
  int local_map, lane, local_group, slot, slots_per_map, lanes_per_slot, packs;
  bool active;

  __device__ bool valid(int lanes, int i) const { return active && lane + i * lanes < packs; }
};

template <int P>
__device__ inline MapPlace map_place(const ResidentSizes& s) {
  MapPlace at;
  const int thread = static_cast<int>(threadIdx.x);
  at.local_map = thread / s.lanes;
  at.lane = thread % s.lanes;
  const unsigned map = blockIdx.x * static_cast<unsigned>(s.maps) + static_cast<unsigned>(at.local_map);
  at.map = map;
  at.active = at.local_map < s.maps && at.map < s.samples * s.channels;
  at.group = s.group_of(static_cast<int>(map));
  at.channel = at.active ? map % static_cast<unsigned>(s.channels) : 0;
  at.local_group = s.cluster > 1 ? 0 : s.group_of(at.local_map);
  at.lanes_per_slot = s.lanes < 32 ? s.lanes : 32;
  at.slots_per_map = s.lanes / at.lanes_per_slot;
  at.slot = thread / at.lanes_per_slot;
  at.packs = static_cast<int>(s.pixels / P);
  return at;
}

// Groups of which the block has a part, and how many of its maps belong to each.
__device__ inline int block_groups(const ResidentSizes& s) {
  return s.cluster > 1 ? 1 : s.maps / s.width;
}
__device__ inline int maps_of_group(const ResidentSizes& s) {
  return s.cluster > 1 ? s.maps : s.width;
}

template <class T, int P, int V>
__global__ void __launch_bounds__(resident_threads, 3) forward_kernel_nchw(ResidentSizes s, ResidentForward f) {
  __shared__ float slots[3][resident_threads];
  __shared__ float groups[3][resident_threads];
  __shared__ float deviations[resident_threads];
  const MapPlace at = map_place<P>(s);
  const T* x = static_cast<const T*>(f.x);
  const std::int64_t start = at.map * s.pixels + at.lane * P;
  const int step = s.lanes * P;
  Held<T, P> data[V];
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (at.valid(s.lanes, i)) data[i].load(x + start + i * step);
  float pivot = 0, v = 1, gamma = 0, beta = 0;
  if (at.active) {
    pivot = kernel::load(x[at.group * s.width * s.pixels]);
    if (f.v != nullptr) v = f.v[at.channel];
    gamma = f.gamma[at.channel];
    beta = f.beta[at.channel];
  }
  float moments[3];
  thread_moments<P, V>(
      data, pivot, [&](int i) { return at.valid(s.lanes, i); }, moments);
  lanes_merge<Chan>(moments, 1, at.lanes_per_slot);
  if (at.lane % at.lanes_per_slot == 0)
#pragma unroll
    for (int k = 0; k < 3; ++k) slots[k][at.slot] = moments[k];
  __syncthreads();

  const int group_slots = maps_of_group(s) * at.slots_per_map;
  for (int g = static_cast<int>(threadIdx.x) / 32; g < block_groups(s); g += static_cast<int>(blockDim.x) / 32) {
    float merged[3] = {};
    slots_merge<Chan>(&slots[0][g * group_slots], resident_threads, group_slots, merged);
    if (threadIdx.x % 32 == 0)
#pragma unroll
      for (int k = 0; k < 3; ++k) groups[k][g] = merged[k];
  }
  if (s.cluster > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  // One thread of each group finishes its statistics.
  const bool finishes = at.active && at.lane == 0 && at.local_map % maps_of_group(s) == 0;
  if (finishes) {
    float merged[3] = {};
    ranks_merge<Chan>(&groups[0][at.local_group], resident_threads, s.cluster, merged);
    const float rstd = reciprocal_deviation(s, pivot, merged);
    deviations[at.local_group] = rstd;
    if (cluster_rank() == 0 || s.cluster == 1) {
      const std::int64_t slices = s.samples * (s.channels / s.width);
      f.slice[at.group] = pivot;
      f.slice[slices + at.group] = merged[1];
      f.slice[2 * slices + at.group] = rstd;
    }
  }
  __syncthreads();
  if (s.cluster > 1) cluster_arrive();  // this block has read the others' shared memory

  if (at.active) {
    const float scale = gamma * deviations[at.local_group];
    T* y = static_cast<T*>(f.y);
    const GateForward<float> formula{v, scale, beta};
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (at.valid(s.lanes, i)) {
        float value[P];
#pragma unroll
        for (int p = 0; p < P; ++p) value[p] = formula(data[i][p]);
        data[i].set(value);
        data[i].store(y + start + i * step);
      }
  }
  if (s.cluster > 1) cluster_wait();  // until the others have read this block's
}

template <class T, int P, int V>
__global__ void __launch_bounds__(resident_threads, 2) backward_kernel_nchw(ResidentSizes s, ResidentBackward b) {
  __shared__ float slots[3][resident_threads];
  __shared__ float products[resident_threads];  // of maps: gamma * sum of dy x q
  __shared__ float groups[resident_threads];
  __shared__ float totals[resident_threads];
  const MapPlace at = map_place<P>(s);
  const T* x = static_cast<const T*>(b.x);
  const T* dy = static_cast<const T*>(b.dy);
  const std::int64_t start = at.map * s.pixels + at.lane * P;
  const int step = s.lanes * P;
  Held<T, P> data[V], slope[V];
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (at.valid(s.lanes, i)) {
      data[i].load(x + start + i * step);
      slope[i].load(dy + start + i * step);
    }
  const float v = at.active && b.v != nullptr ? b.v[at.channel] : 1.0f;
  float sum[3] = {};
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (at.valid(s.lanes, i)) {
      float value[P];
#pragma unroll
      for (int p = 0; p < P; ++p) value[p] = gate_slope(v, data[i][p], slope[i][p], sum);
      slope[i].set(value);
    }
  lanes_merge<Add>(sum, 1, at.lanes_per_slot);
  if (at.lane % at.lanes_per_slot == 0)
#pragma unroll
    for (int k = 0; k < 3; ++k) slots[k][at.slot] = sum[k];
  __syncthreads();

  const std::int64_t slices = s.samples * (s.channels / s.width);
  for (int m = static_cast<int>(threadIdx.x); m < s.maps; m += static_cast<int>(blockDim.x)) {
    const std::int64_t map = std::int64_t{blockIdx.x} * s.maps + m;
    float total[3] = {};
    if (map < s.samples * s.channels) {
      for (int j = 0; j < at.slots_per_map; ++j)
#pragma unroll
        for (int k = 0; k < 3; ++k) total[k] += slots[k][m * at.slots_per_map + j];
      const float gamma = b.gamma[map % s.channels], rstd = b.slice[2 * slices + map / s.width];
      const std::int64_t maps = s.samples * s.channels;
      b.sums[map] = rstd * total[0];
      b.sums[maps + map] = total[1];
      b.sums[2 * maps + map] = gamma * rstd * total[2];
      total[0] *= gamma;
    }
    products[m] = total[0];
  }
  if (b.dx == nullptr) return;
  __syncthreads();
  for (int g = static_cast<int>(threadIdx.x) / 32; g < block_groups(s); g += static_cast<int>(blockDim.x) / 32) {
    float product[1] = {};
    slots_merge<Add>(&products[g * maps_of_group(s)], 0, maps_of_group(s), product);
    if (threadIdx.x % 32 == 0) groups[g] = product[0];
  }
  if (s.cluster > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  if (at.active && at.lane == 0 && at.local_map % maps_of_group(s) == 0) {
    float product[1] = {};
    ranks_merge<Add>(&groups[at.local_group], 0, s.cluster, product);
    totals[at.local_group] = product[0];
  }
  __syncthreads();
  if (s.cluster > 1) cluster_arrive();

  if (at.active) {
    const float pivot = b.slice[at.group], rstd = b.slice[2 * slices + at.group];
    const float scale = b.gamma[at.channel] * rstd;
    const float elements = static_cast<float>(s.pixels) * static_cast<float>(s.width);
    const float through = -rstd * rstd * (rstd * totals[at.local_group] / elements);
    const float offset = through * (s.about_zero ? pivot : -b.slice[slices + at.group]);
    T* dx = static_cast<T*>(b.dx);
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (at.valid(s.lanes, i)) {
        float value[P];
#pragma unroll
        for (int p = 0; p < P; ++p) value[p] = slope[i][p] * scale + ((data[i][p] - pivot) * through + offset);
        slope[i].set(value);
        slope[i].store(dx + start + i * step);
      }
  }
  if (s.cluster > 1) cluster_wait();
}

// Calls f<P, V>() for the packs and vectors that residency() chooses.
template <class T, class F>
void visit_cut(const Residency& r, const F& f) {
  constexpr int full = 16 / static_cast<int>(sizeof(T));
  if (r.pack == full && r.vectors == 4) return f.template operator()<full, 4>();
  if (r.pack == full && r.vectors == 8) return f.template operator()<full, 8>();
  if constexpr (full == 8) {
    if (r.pack == 4 && r.vectors == 4) return f.template operator()<4, 4>();
    if (r.pack == 4 && r.vectors == 8) return f.template operator()<4, 8>();
  }
  if (r.pack == 1 && r.vectors == 8) return f.template operator()<1, 8>();
  fail("evonorm: no one-read kernel for packs of ", r.pack, " in ", r.vectors, " vectors");
}

}  // namespace

bool resident_kernels_know_clusters() {
  cudaFuncAttributes attributes = {};
  gpu::check(cudaFuncGetAttributes(&attributes, forward_kernel_nchw<float, 4, 8>), "cudaFuncGetAttributes");
  return attributes.ptxVersion >= 90;
}

void resident_forward_nchw(const raw::OnStream& where, Dtype dtype, const Residency& r, const ResidentSizes& s,
                           const ResidentForward& f) {
  visit_resident(dtype, [&]<class T>() {
    visit_cut<T>(r, [&]<int P, int V>() {
      launch_resident(where, r, detail::divide_up(s.samples * s.channels, r.maps), "evonorm: forward_kernel_nchw",
                      forward_kernel_nchw<T, P, V>, s, f);
    });
  });
}

void resident_backward_nchw(const raw::OnStream& where, Dtype dtype, const Residency& r, const ResidentSizes& s,
                            const ResidentBackward& b) {
  visit_resident(dtype, [&]<class T>() {
    visit_cut<T>(r, [&]<int P, int V>() {
      launch_resident(where, r, detail::divide_up(s.samples * s.channels, r.maps), "evonorm: backward_kernel_nchw",
                      backward_kernel_nchw<T, P, V>, s, b);
    });
  });
}

}  // namespace bevel::evo
