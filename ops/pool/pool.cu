// Pooling on CUDA: one thread for each element written; gradients gather, so that no two threads add to one place.
#include <bevel/core/cuda/runtime.h>
#include <bevel/ops/pool/detail/kernels.h>
#include <bevel/core/cuda/launch.cuh>

namespace bevel::detail {

namespace {

constexpr int threads = 256;

// Where element i of a [batch, height, width, channels] array lies.
struct Place {
  std::int64_t n, h, w, c;

  __device__ Place(std::int64_t i, std::int64_t height, std::int64_t width, std::int64_t channels) {
    c = i % channels;
    i /= channels;
    w = i % width;
    i /= width;
    h = i % height;
    n = i / height;
  }
};

// Runs body(i) for 0 <= i < count, a functor per kernel below.
template <class Body>
__global__ void pool_kernel(Body body, std::int64_t count) {
  gpu::begin_kernel();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

template <class Body>
void launch(Cuda backend, const Body& body, std::int64_t count, const char* name) {
  if (count == 0) return;
  const gpu::DeviceGuard guard(backend.device);
  const std::int64_t most = 16 * static_cast<std::int64_t>(gpu::multiprocessors(backend.device));
  const auto blocks = static_cast<unsigned>(std::min((count + threads - 1) / threads, most));
  gpu::launch(pool_kernel<Body>, {.blocks = blocks, .threads = threads, .stream = gpu::stream(backend)}, name, body,
              count);
}

template <class T>
struct MaxPool {
  PoolShape s;
  const T* input;
  T* output;
  std::int32_t* places;

  __device__ void operator()(std::int64_t i) const {
    const Place o(i, s.out_height, s.out_width, s.channels);
    const T* const picture = input + o.n * s.height * s.width * s.channels + o.c;
    std::int64_t place = -1;
    compute_t<T> best = 0;
    for_window(s, o.h, o.w, [&](std::int64_t h, std::int64_t w) {
      const auto value = static_cast<compute_t<T>>(picture[(h * s.width + w) * s.channels]);
      if (place < 0 || value > best || (value != value && best == best)) {
        best = value;
        place = h * s.width + w;
      }
    });
    output[i] = static_cast<T>(best);
    places[i] = static_cast<std::int32_t>(place);
  }
};

template <class T>
struct SpreadToPlaces {
  PoolShape s;
  const T* gradient;
  const std::int32_t* places;
  T* result;

  __device__ void operator()(std::int64_t i) const {
    const Place p(i, s.height, s.width, s.channels);
    const auto here = static_cast<std::int32_t>(p.h * s.width + p.w);
    compute_t<T> sum = 0;
    for_outputs(s, p.h, p.w, [&](std::int64_t y, std::int64_t x) {
      const std::int64_t o = ((p.n * s.out_height + y) * s.out_width + x) * s.channels + p.c;
      if (places[o] == here) sum += static_cast<compute_t<T>>(gradient[o]);
    });
    result[i] = static_cast<T>(sum);
  }
};

template <class T>
struct TakePlaces {
  PoolShape s;
  const T* input;
  const std::int32_t* places;
  T* result;

  __device__ void operator()(std::int64_t i) const {
    const Place o(i, s.out_height, s.out_width, s.channels);
    result[i] = input[(o.n * s.height * s.width + places[i]) * s.channels + o.c];
  }
};

template <class T>
struct AvgPool {
  PoolShape s;
  const T* input;
  T* output;

  __device__ void operator()(std::int64_t i) const {
    const Place o(i, s.out_height, s.out_width, s.channels);
    const T* const picture = input + o.n * s.height * s.width * s.channels + o.c;
    compute_t<T> sum = 0;
    for_window(s, o.h, o.w, [&](std::int64_t h, std::int64_t w) {
      sum += static_cast<compute_t<T>>(picture[(h * s.width + w) * s.channels]);
    });
    output[i] = static_cast<T>(sum / static_cast<compute_t<T>>(pool_count(s, o.h, o.w)));
  }
};

template <class T>
struct SpreadMeans {
  PoolShape s;
  const T* gradient;
  T* result;

  __device__ void operator()(std::int64_t i) const {
    const Place p(i, s.height, s.width, s.channels);
    compute_t<T> sum = 0;
    for_outputs(s, p.h, p.w, [&](std::int64_t y, std::int64_t x) {
      sum += static_cast<compute_t<T>>(gradient[((p.n * s.out_height + y) * s.out_width + x) * s.channels + p.c]) /
             static_cast<compute_t<T>>(pool_count(s, y, x));
    });
    result[i] = static_cast<T>(sum);
  }
};

}  // namespace

void max_pool(Cuda backend, const PoolShape& s, const Tensor& input, const Tensor& output, const Tensor& places) {
  visit_floating(input.dtype(), "max_pool2d", [&]<class T>() {
    launch(backend, MaxPool<T>{s, input.data<T>(), output.data<T>(), places.data<std::int32_t>()}, output.numel(),
           "max_pool2d");
  });
}

void spread_to_places(Cuda backend, const PoolShape& s, const Tensor& gradient, const Tensor& places,
                      const Tensor& result) {
  visit_floating(gradient.dtype(), "max_pool2d", [&]<class T>() {
    launch(backend, SpreadToPlaces<T>{s, gradient.data<T>(), places.data<std::int32_t>(), result.data<T>()},
           result.numel(), "max_pool2d: gradient");
  });
}

void take_places(Cuda backend, const PoolShape& s, const Tensor& input, const Tensor& places, const Tensor& result) {
  visit_floating(input.dtype(), "max_pool2d", [&]<class T>() {
    launch(backend, TakePlaces<T>{s, input.data<T>(), places.data<std::int32_t>(), result.data<T>()}, result.numel(),
           "max_pool2d: second gradient");
  });
}

void avg_pool(Cuda backend, const PoolShape& s, const Tensor& input, const Tensor& output) {
  visit_floating(input.dtype(), "avg_pool2d", [&]<class T>() {
    launch(backend, AvgPool<T>{s, input.data<T>(), output.data<T>()}, output.numel(), "avg_pool2d");
  });
}

void spread_means(Cuda backend, const PoolShape& s, const Tensor& gradient, const Tensor& result) {
  visit_floating(gradient.dtype(), "avg_pool2d", [&]<class T>() {
    launch(backend, SpreadMeans<T>{s, gradient.data<T>(), result.data<T>()}, result.numel(), "avg_pool2d: gradient");
  });
}

}  // namespace bevel::detail
