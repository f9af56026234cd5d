// One-read kernels of the gate in NHWC. A block holds `lanes` packs of adjacent channels, whole groups, of a run of
// pixels; `lanes` adjacent threads read one pixel. The blocks of a cluster hold the pixels of one sample.
#include <bevel/ops/evonorm/detail/resident.cuh>

namespace bevel::evo {

namespace {

constexpr int warps = resident_threads / 32;
constexpr int most_channels = 256;  // of a block: 32 packs of 8

struct RunPlace {
  std::int64_t sample, first_channel, start;  // start: of the sample's channels in x
  int run, lane, row, rows, channels, groups, first, last;

  __device__ bool valid(int i) const { return first + row + i * rows < last; }
  __device__ std::int64_t offset(const ResidentSizes& s, int i) const {
    return std::int64_t{first + row + i * rows} * s.channels;
  }
};

template <int P>
__device__ inline RunPlace run_place(const ResidentSizes& s) {
  RunPlace at;
  const int thread = static_cast<int>(threadIdx.x);
  at.channels = s.lanes * P;
  at.groups = at.channels / s.width;
  at.run = static_cast<int>(blockIdx.x % static_cast<unsigned>(s.cluster));
  const unsigned tile = blockIdx.x / static_cast<unsigned>(s.cluster);
  const unsigned tiles = static_cast<unsigned>(s.channels) / static_cast<unsigned>(at.channels);
  at.sample = tile / tiles;
  at.first_channel = std::int64_t{tile % tiles} * at.channels;
  at.start = at.sample * s.pixels * s.channels + at.first_channel;
  at.lane = thread % s.lanes;
  at.row = thread / s.lanes;
  at.rows = resident_threads / s.lanes;
  const int share = static_cast<int>((s.pixels + s.cluster - 1) / s.cluster);
  at.first = at.run * share;
  at.last = static_cast<int>(at.first + share < s.pixels ? at.first + share : s.pixels);
  return at;
}

// Merges a thread's values of its channel p over the rows of its warp, into the warp's slot.
template <class Merge, int P, int K>
__device__ inline void publish(const ResidentSizes& s, const RunPlace& at, int p, float (&value)[K],
                               float (&slots)[K][warps][most_channels]) {
  const int thread = static_cast<int>(threadIdx.x);
  lanes_merge<Merge>(value, s.lanes, 32);
  if (thread % 32 < s.lanes)
#pragma unroll
    for (int k = 0; k < K; ++k) slots[k][thread / 32][at.lane * P + p] = value[k];
}

// From the warps' slots to the block's channels, merged[k][channel].
template <class Merge, int K>
__device__ inline void merge_channels(const RunPlace& at, float (&slots)[K][warps][most_channels],
                                      float (&merged)[K][most_channels]) {
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (thread < at.channels) {
    float total[K];
#pragma unroll
    for (int k = 0; k < K; ++k) total[k] = slots[k][0][thread];
    for (int warp = 1; warp < warps; ++warp) {
      float other[K];
#pragma unroll
      for (int k = 0; k < K; ++k) other[k] = slots[k][warp][thread];
      Merge::merge(total, other);
    }
#pragma unroll
    for (int k = 0; k < K; ++k) merged[k][thread] = total[k];
  }
  __syncthreads();
}

// From merged channels to the block's groups, groups[k][group], and to the other blocks' sight.
template <class Merge, int K>
__device__ inline void merge_groups(const ResidentSizes& s, const RunPlace& at, const float* channels,
                                    float (&groups)[K][most_channels]) {
  for (int g = static_cast<int>(threadIdx.x) / 32; g < at.groups; g += warps) {
    float total[K] = {};
    slots_merge<Merge>(channels + g * s.width, most_channels, s.width, total);
    if (threadIdx.x % 32 == 0)
#pragma unroll
      for (int k = 0; k < K; ++k) groups[k][g] = total[k];
  }
  if (s.cluster > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
}

template <class T, int P, int V>
__global__ void __launch_bounds__(resident_threads, 3) forward_kernel_nhwc(ResidentSizes s, ResidentForward f) {
  __shared__ float slots[3][warps][most_channels];
  __shared__ float channels[3][most_channels];
  __shared__ float groups[3][most_channels];
  __shared__ float deviations[most_channels];
  const RunPlace at = run_place<P>(s);
  const T* x = static_cast<const T*>(f.x) + at.start;
  Held<T, P> data[V];
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (at.valid(i)) data[i].load(x + at.offset(s, i) + at.lane * P);

      // Moments of each channel about its group's pivot, the group's first element.
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const float pivot = kernel::load(x[s.group_of(at.lane * P + p) * s.width]);
    float count = 0, sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (at.valid(i)) {
        count += 1;
        sum += data[i][p] - pivot;
      }
    const float mean = count > 0 ? sum / count : 0.0f;
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (at.valid(i)) {
        const float difference = data[i][p] - pivot - mean;
        squares += difference * difference;
      }
    float moments[3] = {count, mean, squares};
    publish<Chan, P>(s, at, p, moments, slots);
  }
  merge_channels<Chan>(at, slots, channels);
  merge_groups<Chan>(s, at, &channels[0][0], groups);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < at.groups) {
    float merged[3] = {};
    ranks_merge<Chan>(&groups[0][thread], most_channels, s.cluster, merged);
    const float pivot = kernel::load(x[thread * s.width]);
    const float rstd = reciprocal_deviation(s, pivot, merged);
    deviations[thread] = rstd;
    if (at.run == 0) {
      const std::int64_t all_groups = s.channels / s.width, slices = s.samples * all_groups;
      const std::int64_t group = at.sample * all_groups + at.first_channel / s.width + thread;
      f.slice[group] = pivot;
      f.slice[slices + group] = merged[1];
      f.slice[2 * slices + group] = rstd;
    }
  }
  __syncthreads();
  if (s.cluster > 1) cluster_arrive();  // this block has read the others' shared memory

  GateForward<float> formula[P];
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int local = at.lane * P + p;
    const std::int64_t channel = at.first_channel + local;
    formula[p] = {f.v != nullptr ? f.v[channel] : 1.0f, f.gamma[channel] * deviations[s.group_of(local)],
                  f.beta[channel]};
  }
  T* y = static_cast<T*>(f.y) + at.start;
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (at.valid(i)) {
      float value[P];
#pragma unroll
      for (int p = 0; p < P; ++p) value[p] = formula[p](data[i][p]);
      data[i].set(value);
      data[i].store(y + at.offset(s, i) + at.lane * P);
    }
  if (s.cluster > 1) cluster_wait();  // until the others have read this block's
}

template <class T, int P, int V>
__global__ void __launch_bounds__(resident_threads, 2) backward_kernel_nhwc(ResidentSizes s, ResidentBackward b) {
  __shared__ float slots[3][warps][most_channels];
  __shared__ float channels[3][most_channels];
  __shared__ float groups[1][most_channels];
  __shared__ float pivots[most_channels], scales[most_channels], slopes[most_channels], offsets[most_channels];
  const RunPlace at = run_place<P>(s);
  const T* x = static_cast<const T*>(b.x) + at.start + at.lane * P;
  const T* dy = static_cast<const T*>(b.dy) + at.start + at.lane * P;
  Held<T, P> data[V], slope[V];
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (at.valid(i)) {
      data[i].load(x + at.offset(s, i));
      slope[i].load(dy + at.offset(s, i));
    }
  float v[P], sum[P][3] = {};
#pragma unroll
  for (int p = 0; p < P; ++p) v[p] = b.v != nullptr ? b.v[at.first_channel + at.lane * P + p] : 1.0f;
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (at.valid(i)) {
      float value[P];
#pragma unroll
      for (int p = 0; p < P; ++p) value[p] = gate_slope(v[p], data[i][p], slope[i][p], sum[p]);
      slope[i].set(value);
    }
#pragma unroll
  for (int p = 0; p < P; ++p) publish<Add, P>(s, at, p, sum[p], slots);
  merge_channels<Add>(at, slots, channels);

  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t all_groups = s.channels / s.width, slices = s.samples * all_groups;
  const std::int64_t first_group = at.sample * all_groups + at.first_channel / s.width;
  if (thread < at.channels) {
    const float gamma = b.gamma[at.first_channel + thread];
    const float rstd = b.slice[2 * slices + first_group + s.group_of(thread)];
    const std::int64_t plane = s.samples * s.cluster * s.channels;
    float* sums = b.sums + (at.sample * s.cluster + at.run) * s.channels + at.first_channel + thread;
    sums[0] = rstd * channels[0][thread];
    sums[plane] = channels[1][thread];
    sums[2 * plane] = gamma * rstd * channels[2][thread];
    channels[0][thread] *= gamma;
  }
  if (b.dx == nullptr) return;
  __syncthreads();
  merge_groups<Add>(s, at, &channels[0][0], groups);
  if (thread < at.groups) {
    float product[1] = {};
    ranks_merge<Add>(&groups[0][thread], 0, s.cluster, product);
    const std::int64_t group = first_group + thread;
    const float pivot = b.slice[group], rstd = b.slice[2 * slices + group];
    const float elements = static_cast<float>(s.pixels) * static_cast<float>(s.width);
    const float through = -rstd * rstd * (rstd * product[0] / elements);
    pivots[thread] = pivot;
    scales[thread] = rstd;
    slopes[thread] = through;
    offsets[thread] = through * (s.about_zero ? pivot : -b.slice[slices + group]);
  }
  __syncthreads();
  if (s.cluster > 1) cluster_arrive();

  T* dx = static_cast<T*>(b.dx) + at.start + at.lane * P;
  float scale[P], pivot[P], through[P], offset[P];
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int local = at.lane * P + p, group = s.group_of(local);
    scale[p] = b.gamma[at.first_channel + local] * scales[group];
    pivot[p] = pivots[group];
    through[p] = slopes[group];
    offset[p] = offsets[group];
  }
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (at.valid(i)) {
      float value[P];
#pragma unroll
      for (int p = 0; p < P; ++p)
        value[p] = slope[i][p] * scale[p] + ((data[i][p] - pivot[p]) * through[p] + offset[p]);
      slope[i].set(value);
      slope[i].store(dx + at.offset(s, i));
    }
  if (s.cluster > 1) cluster_wait();
}

template <class T, class F>
void visit_cut(const Residency& r, const F& f) {
  constexpr int full = 16 / static_cast<int>(sizeof(T));
  if (r.pack == full && r.vectors == 4) return f.template operator()<full, 4>();
  if (r.pack == full && r.vectors == 8) return f.template operator()<full, 8>();
  fail("evonorm: no one-read kernel for packs of ", r.pack, " in ", r.vectors, " vectors");
}

std::int64_t blocks(const Residency& r, const ResidentSizes& s) {
  return s.samples * (s.channels / (r.lanes * r.pack)) * r.cluster;
}

}  // namespace

void resident_forward_nhwc(const raw::OnStream& where, Dtype dtype, const Residency& r, const ResidentSizes& s,
                           const ResidentForward& f) {
  visit_resident(dtype, [&]<class T>() {
    visit_cut<T>(r, [&]<int P, int V>() {
      launch_resident(where, r, blocks(r, s), "evonorm: forward_kernel_nhwc", forward_kernel_nhwc<T, P, V>, s, f);
    });
  });
}

void resident_backward_nhwc(const raw::OnStream& where, Dtype dtype, const Residency& r, const ResidentSizes& s,
                            const ResidentBackward& b) {
  visit_resident(dtype, [&]<class T>() {
    visit_cut<T>(r, [&]<int P, int V>() {
      launch_resident(where, r, blocks(r, s), "evonorm: backward_kernel_nhwc", backward_kernel_nhwc<T, P, V>, s, b);
    });
  });
}

}  // namespace bevel::evo
