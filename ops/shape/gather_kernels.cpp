#include <bevel/core/parallel.h>
#include <bevel/ops/kernel/width.h>
#include <bevel/ops/shape/detail/gather_kernels.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace bevel::detail {

namespace {

constexpr std::int64_t tile = 16384;

struct Buckets {
  std::vector<std::int64_t> starts;  // of each row in `order`, and its end
  std::vector<std::int64_t> order;   // places, by row and then ascending
};

// A counting sort of the places by their keys.
Buckets sort_places(const std::int64_t* keys, std::int64_t count, std::int64_t size) {
  Buckets buckets{std::vector<std::int64_t>(static_cast<std::size_t>(size) + 1),
                  std::vector<std::int64_t>(static_cast<std::size_t>(count))};
  for (std::int64_t k = 0; k < count; ++k) ++buckets.starts[static_cast<std::size_t>(keys[k]) + 1];
  for (std::size_t c = 0; c < static_cast<std::size_t>(size); ++c) buckets.starts[c + 1] += buckets.starts[c];
  std::vector<std::int64_t> next(buckets.starts.begin(), buckets.starts.end());
  for (std::int64_t k = 0; k < count; ++k)
    buckets.order[static_cast<std::size_t>(next[static_cast<std::size_t>(keys[k])]++)] = k;
  return buckets;
}

}  // namespace

void make_keys(Cpu, const Tensor& index, const IndexMeaning& meaning, const Tensor& keys, const char* function) {
  std::int64_t* to = keys.data<std::int64_t>();
  const auto fill = [&](const auto* from) {
    for (std::int64_t p = 0; p < index.numel(); ++p) {
      const std::int64_t i = from[p];
      require(i >= 0 && i < meaning.size, function, ": index ", i, " at place ", p, " lies outside an axis of size ",
              meaning.size);
      to[p] = meaning.key(p, i);
    }
  };
  if (index.dtype() == i32)
    fill(index.data<std::int32_t>());
  else
    fill(index.data<std::int64_t>());
}

void take_rows(Cpu, const Tensor& x, const IndexedRows& rows, const Tensor& keys, const Tensor& out) {
  const std::int64_t count = keys.numel();
  const std::int64_t inner = rows.inner;
  const std::int64_t* key = keys.data<std::int64_t>();
  if (out.numel() == 0) return;
  kernel::visit_width(size_of(x.dtype()), [&]<class T>(T) {
    const T* from = static_cast<const T*>(x.raw());
    T* to = static_cast<T*>(out.raw());
    parallel_ranges(rows.outer * count, std::max<std::int64_t>(tile / inner, 1),
                    [&](std::int64_t first, std::int64_t last) {
                      for (std::int64_t row = first; row < last; ++row) {
                        const T* source = from + (row / count * rows.size + key[row % count]) * inner;
                        if (inner == 1)
                          to[row] = *source;
                        else
                          std::memcpy(to + row * inner, source, static_cast<std::size_t>(inner) * sizeof(T));
                      }
                    });
  });
}

void add_rows(Cpu, const Tensor& source, const IndexedRows& rows, const Tensor& keys, const Tensor& out) {
  constexpr std::int64_t columns = 256;
  if (out.numel() == 0) return;
  const std::int64_t count = keys.numel();
  const std::int64_t inner = rows.inner;
  const Buckets buckets = sort_places(keys.data<std::int64_t>(), count, rows.size);
  visit_floating(source.dtype(), "scatter_add", [&]<class T>() {
    const T* from = source.data<T>();
    T* to = out.data<T>();
    parallel_ranges(
        rows.outer * rows.size, std::max<std::int64_t>(tile / inner, 1), [&](std::int64_t first, std::int64_t last) {
          compute_t<T> acc[columns];
          for (std::int64_t row = first; row < last; ++row) {
            const std::int64_t o = row / rows.size;
            const auto c = static_cast<std::size_t>(row % rows.size);
            for (std::int64_t column = 0; column < inner; column += columns) {
              const std::int64_t width = std::min(columns, inner - column);
              std::fill_n(acc, width, compute_t<T>(0));
              for (std::int64_t s = buckets.starts[c]; s < buckets.starts[c + 1]; ++s) {
                const T* place = from + (o * count + buckets.order[static_cast<std::size_t>(s)]) * inner + column;
                for (std::int64_t j = 0; j < width; ++j) acc[j] += static_cast<compute_t<T>>(place[j]);
              }
              for (std::int64_t j = 0; j < width; ++j) to[row * inner + column + j] = static_cast<T>(acc[j]);
            }
          }
        });
  });
}

}  // namespace bevel::detail
