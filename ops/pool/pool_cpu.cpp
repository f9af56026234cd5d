#include <bevel/core/parallel.h>
#include <bevel/ops/pool/detail/kernels.h>

#include <vector>

namespace bevel::detail {

namespace {

// Rows of a picture, each one task: body(picture, row).
template <class Body>
void for_rows(std::int64_t batch, std::int64_t rows, std::int64_t row_elements, const Body& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 13) / row_elements);
  parallel_ranges(batch * rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i / rows, i % rows);
  });
}

template <class T>
void max_of_window(const PoolShape& s, const T* picture, std::int64_t y, std::int64_t x, T* best, std::int32_t* place) {
  bool first = true;
  for_window(s, y, x, [&](std::int64_t h, std::int64_t w) {
    const T* const values = picture + (h * s.width + w) * s.channels;
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const auto value = static_cast<compute_t<T>>(values[c]);
      const auto old = static_cast<compute_t<T>>(best[c]);
      if (first || value > old || (value != value && old == old)) {
        best[c] = values[c];
        place[c] = static_cast<std::int32_t>(h * s.width + w);
      }
    }
    first = false;
  });
}

template <class T>
void round_to(const std::vector<compute_t<T>>& sums, T* to) {
  for (std::size_t c = 0; c < sums.size(); ++c) to[c] = static_cast<T>(sums[c]);
}

}  // namespace

void max_pool(Cpu, const PoolShape& s, const Tensor& input, const Tensor& output, const Tensor& places) {
  visit_floating(input.dtype(), "max_pool2d", [&]<class T>() {
    for_rows(s.batch, s.out_height, s.out_width * s.channels * s.kernel_h * s.kernel_w,
             [&, from = input.data<T>(), to = output.data<T>(), at = places.data<std::int32_t>()](std::int64_t n,
                                                                                                  std::int64_t y) {
               for (std::int64_t x = 0; x < s.out_width; ++x) {
                 const std::int64_t o = ((n * s.out_height + y) * s.out_width + x) * s.channels;
                 max_of_window(s, from + n * s.height * s.width * s.channels, y, x, to + o, at + o);
               }
             });
  });
}

void spread_to_places(Cpu, const PoolShape& s, const Tensor& gradient, const Tensor& places, const Tensor& result) {
  visit_floating(gradient.dtype(), "max_pool2d", [&]<class T>() {
    const T* const from = gradient.data<T>();
    const std::int32_t* const at = places.data<std::int32_t>();
    T* const to = result.data<T>();
    for_rows(s.batch, s.height, s.width * s.channels, [&](std::int64_t n, std::int64_t h) {
      std::vector<compute_t<T>> sums(static_cast<std::size_t>(s.channels));
      for (std::int64_t w = 0; w < s.width; ++w) {
        const auto here = static_cast<std::int32_t>(h * s.width + w);
        std::fill(sums.begin(), sums.end(), compute_t<T>(0));
        for_outputs(s, h, w, [&](std::int64_t y, std::int64_t x) {
          const std::int64_t o = ((n * s.out_height + y) * s.out_width + x) * s.channels;
          for (std::int64_t c = 0; c < s.channels; ++c)
            if (at[o + c] == here) sums[static_cast<std::size_t>(c)] += static_cast<compute_t<T>>(from[o + c]);
        });
        round_to(sums, to + ((n * s.height + h) * s.width + w) * s.channels);
      }
    });
  });
}

void take_places(Cpu, const PoolShape& s, const Tensor& input, const Tensor& places, const Tensor& result) {
  visit_floating(input.dtype(), "max_pool2d", [&]<class T>() {
    const T* const from = input.data<T>();
    const std::int32_t* const at = places.data<std::int32_t>();
    T* const to = result.data<T>();
    const std::int64_t row = s.out_width * s.channels;
    for_rows(s.batch, s.out_height, row, [&](std::int64_t n, std::int64_t y) {
      const std::int64_t first = (n * s.out_height + y) * row;
      for (std::int64_t i = first; i < first + row; ++i)
        to[i] = from[(n * s.height * s.width + at[i]) * s.channels + i % s.channels];
    });
  });
}

void avg_pool(Cpu, const PoolShape& s, const Tensor& input, const Tensor& output) {
  visit_floating(input.dtype(), "avg_pool2d", [&]<class T>() {
    const T* const from = input.data<T>();
    T* const to = output.data<T>();
    const std::int64_t work = s.out_width * s.channels * s.kernel_h * s.kernel_w;
    for_rows(s.batch, s.out_height, work, [&](std::int64_t n, std::int64_t y) {
      std::vector<compute_t<T>> sums(static_cast<std::size_t>(s.channels));
      for (std::int64_t x = 0; x < s.out_width; ++x) {
        std::fill(sums.begin(), sums.end(), compute_t<T>(0));
        for_window(s, y, x, [&](std::int64_t h, std::int64_t w) {
          const T* const values = from + ((n * s.height + h) * s.width + w) * s.channels;
          for (std::int64_t c = 0; c < s.channels; ++c)
            sums[static_cast<std::size_t>(c)] += static_cast<compute_t<T>>(values[c]);
        });
        const auto count = static_cast<compute_t<T>>(pool_count(s, y, x));
        for (auto& sum : sums) sum /= count;
        round_to(sums, to + ((n * s.out_height + y) * s.out_width + x) * s.channels);
      }
    });
  });
}

void spread_means(Cpu, const PoolShape& s, const Tensor& gradient, const Tensor& result) {
  visit_floating(gradient.dtype(), "avg_pool2d", [&]<class T>() {
    const T* const from = gradient.data<T>();
    T* const to = result.data<T>();
    for_rows(s.batch, s.height, s.width * s.channels, [&](std::int64_t n, std::int64_t h) {
      std::vector<compute_t<T>> sums(static_cast<std::size_t>(s.channels));
      for (std::int64_t w = 0; w < s.width; ++w) {
        std::fill(sums.begin(), sums.end(), compute_t<T>(0));
        for_outputs(s, h, w, [&](std::int64_t y, std::int64_t x) {
          const T* const values = from + ((n * s.out_height + y) * s.out_width + x) * s.channels;
          const auto count = static_cast<compute_t<T>>(pool_count(s, y, x));
          for (std::int64_t c = 0; c < s.channels; ++c)
            sums[static_cast<std::size_t>(c)] += static_cast<compute_t<T>>(values[c]) / count;
        });
        round_to(sums, to + ((n * s.height + h) * s.width + w) * s.channels);
      }
    });
  });
}

}  // namespace bevel::detail
