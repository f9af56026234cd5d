// What a backend of pooling provides. Tensors are [batch, height, width, channels]; a picture in nchw is one with a
// batch of N*C and a single channel. The last tensor is written.
#pragma once

#include <bevel/core/hostdevice.h>
#include <bevel/core/tensor.h>
#include <bevel/ops/pair.h>

#include <algorithm>

namespace bevel::detail {

struct PoolShape {
  std::int64_t batch, height, width, channels;
  std::int64_t out_height, out_width;
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w;
  bool count_include_pad;

  Shape input() const { return {batch, height, width, channels}; }
  Shape output() const { return {batch, out_height, out_width, channels}; }
};

// first <= i < end.
struct PoolRange {
  std::int64_t first, end;
};

// Pixels of an axis seen by output `at`.
BEVEL_HD PoolRange pool_window(std::int64_t at, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                               std::int64_t size) {
  const std::int64_t first = at * stride - padding;
  return {first > 0 ? first : 0, first + kernel < size ? first + kernel : size};
}

// Outputs of an axis whose windows hold pixel `at`.
BEVEL_HD PoolRange pool_outputs(std::int64_t at, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                                std::int64_t out_size) {
  const std::int64_t last = (at + padding) / stride;
  const std::int64_t before = at + padding - kernel;  // the last start of a window that ends in front of `at`
  return {before < 0 ? 0 : before / stride + 1, last + 1 < out_size ? last + 1 : out_size};
}

// Pixels that output (y, x) sees: body(h, w) in row-major order.
template <class Body>
BEVEL_HD void for_window(const PoolShape& s, std::int64_t y, std::int64_t x, const Body& body) {
  const PoolRange hs = pool_window(y, s.kernel_h, s.stride_h, s.padding_h, s.height);
  const PoolRange ws = pool_window(x, s.kernel_w, s.stride_w, s.padding_w, s.width);
  for (std::int64_t h = hs.first; h < hs.end; ++h)
    for (std::int64_t w = ws.first; w < ws.end; ++w) body(h, w);
}

// Outputs whose windows hold the pixel (h, w): body(y, x) in row-major order.
template <class Body>
BEVEL_HD void for_outputs(const PoolShape& s, std::int64_t h, std::int64_t w, const Body& body) {
  const PoolRange ys = pool_outputs(h, s.kernel_h, s.stride_h, s.padding_h, s.out_height);
  const PoolRange xs = pool_outputs(w, s.kernel_w, s.stride_w, s.padding_w, s.out_width);
  for (std::int64_t y = ys.first; y < ys.end; ++y)
    for (std::int64_t x = xs.first; x < xs.end; ++x) body(y, x);
}

// How many pixels the mean of output (y, x) divides by.
BEVEL_HD std::int64_t pool_count(const PoolShape& s, std::int64_t y, std::int64_t x) {
  if (s.count_include_pad) return s.kernel_h * s.kernel_w;
  const PoolRange h = pool_window(y, s.kernel_h, s.stride_h, s.padding_h, s.height);
  const PoolRange w = pool_window(x, s.kernel_w, s.stride_w, s.padding_w, s.width);
  return (h.end - h.first) * (w.end - w.first);
}

// The maxima, and where they lie: row * width + column, as i32.
void max_pool(Cpu, const PoolShape& shape, const Tensor& input, const Tensor& output, const Tensor& places);
void max_pool(Cuda backend, const PoolShape& shape, const Tensor& input, const Tensor& output, const Tensor& places);

// result[n, place, c] = the sum of gradient[n, y, x, c] over outputs whose maximum lies there.
void spread_to_places(Cpu, const PoolShape& shape, const Tensor& gradient, const Tensor& places, const Tensor& result);
void spread_to_places(Cuda backend, const PoolShape& shape, const Tensor& gradient, const Tensor& places,
                      const Tensor& result);

// result[n, y, x, c] = input[n, place, c]: the adjoint.
void take_places(Cpu, const PoolShape& shape, const Tensor& input, const Tensor& places, const Tensor& result);
void take_places(Cuda backend, const PoolShape& shape, const Tensor& input, const Tensor& places, const Tensor& result);

// The means of windows, and the adjoint.
void avg_pool(Cpu, const PoolShape& shape, const Tensor& input, const Tensor& output);
void avg_pool(Cuda backend, const PoolShape& shape, const Tensor& input, const Tensor& output);
void spread_means(Cpu, const PoolShape& shape, const Tensor& gradient, const Tensor& result);
void spread_means(Cuda backend, const PoolShape& shape, const Tensor& gradient, const Tensor& result);

}  // namespace bevel::detail
