#include <bevel/ops/conv2d/detail/conv_tile.h>

#if defined(__FMA__)
#include <immintrin.h>
#endif

namespace bevel::detail::BEVEL_ISA {

namespace {

// Rows of a register tile: rows * 2 accumulators, 2 vectors of the panel and a broadcast fit the 16 registers of AVX;
// without AVX a vector of 32 bytes takes two registers.
#if defined(__AVX__)
constexpr int most_rows = 6;
#else
constexpr int most_rows = 2;
#endif

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(32), aligned(alignof(T)), may_alias));
};
template <class T>
using Vector = typename VectorOf<T>::type;

// sum += x * y, fused where the processor has it. By reference: without AVX there is no way to pass these vectors.
template <class T>
[[gnu::always_inline]] inline void multiply_add(Vector<T>& sum, T x, const Vector<T>& y) {
#if defined(__FMA__)
  if constexpr (sizeof(T) == 4)
    sum = _mm256_fmadd_ps(_mm256_set1_ps(x), y, sum);
  else
    sum = _mm256_fmadd_pd(_mm256_set1_pd(x), y, sum);
#else
  sum += x * y;
#endif
}

template <class T>
[[gnu::always_inline]] inline const Vector<T>& vector_at(const T* place) {
  return *reinterpret_cast<const Vector<T>*>(place);
}

// The tile of `rows` pixels from `pixel` on, `vectors` vectors wide.
template <int rows, int vectors, class T>
void strip_tile(const ConvStrip<T>& s, std::int64_t pixel) {
  constexpr auto lanes = conv_lanes<T>;
  Vector<T> sum[rows][vectors];
  for (int m = 0; m < rows; ++m)
    for (int v = 0; v < vectors; ++v) sum[m][v] = vector_at(s.bias + v * lanes);
  const T* panel = s.panel;
  for (std::int64_t run = 0; run < s.run_count; ++run) {
    const T* source[rows];
    for (int m = 0; m < rows; ++m) source[m] = s.source + (pixel + m) * s.source_step + s.runs[run].offset;
    for (std::int64_t l = 0; l < s.runs[run].length; ++l, panel += vectors * lanes)
      for (int m = 0; m < rows; ++m)
        for (int v = 0; v < vectors; ++v) multiply_add<T>(sum[m][v], source[m][l], vector_at(panel + v * lanes));
  }
  T* result = s.result + pixel * s.result_step;
  for (int m = 0; m < rows; ++m, result += s.result_step)
    for (int v = 0; v < vectors; ++v) {
      if (s.columns >= (v + 1) * lanes)
        *reinterpret_cast<Vector<T>*>(result + v * lanes) = sum[m][v];
      else
        for (std::int64_t i = v * lanes; i < s.columns; ++i) result[i] = sum[m][v][i - v * lanes];
    }
}

template <int rows, int vectors, class T>
void outer_tile(const ConvOuter<T>& o, std::int64_t first) {
  constexpr auto lanes = conv_lanes<T>;
  Vector<T> sum[rows][vectors] = {};
  for (std::int64_t r = 0; r < o.rows; ++r) {
    const T* source = o.source + first + r * o.source_row;
    const T* gradient = o.gradient + r * o.gradient_row;
    for (std::int64_t c = 0; c < o.columns; ++c, source += o.source_step, gradient += o.gradient_step)
      for (int m = 0; m < rows; ++m)
        for (int v = 0; v < vectors; ++v) multiply_add<T>(sum[m][v], source[m], vector_at(gradient + v * lanes));
  }
  T* to = o.sum + first * o.sum_row;
  for (int m = 0; m < rows; ++m, to += o.sum_row)
    for (int v = 0; v < vectors; ++v) *reinterpret_cast<Vector<T>*>(to + v * lanes) += sum[m][v];
}

// Calls tile.run<rows>(first) over 0..size in even tiles of at most most_rows.
template <int rows, class Tile>
[[gnu::always_inline]] inline void run_rows(std::int64_t count, std::int64_t first, const Tile& tile) {
  if constexpr (rows > 1) {
    if (count != rows) return run_rows<rows - 1>(count, first, tile);
  }
  tile.template operator()<rows>(first);
}

template <class Tile>
[[gnu::always_inline]] inline void run_tiles(std::int64_t size, const Tile& tile) {
  const std::int64_t tiles = (size + most_rows - 1) / most_rows;
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t end = size * (i + 1) / tiles;
    run_rows<most_rows>(end - first, first, tile);
    first = end;
  }
}

template <class T>
void strip(const ConvStrip<T>& s) {
  if (s.columns > conv_lanes<T>)
    run_tiles(s.pixels, [&]<int rows>(std::int64_t first) { strip_tile<rows, 2>(s, first); });
  else
    run_tiles(s.pixels, [&]<int rows>(std::int64_t first) { strip_tile<rows, 1>(s, first); });
}

template <class T>
void outer(const ConvOuter<T>& o) {
  if (o.lanes > conv_lanes<T>)
    run_tiles(o.length, [&]<int rows>(std::int64_t first) { outer_tile<rows, 2>(o, first); });
  else
    run_tiles(o.length, [&]<int rows>(std::int64_t first) { outer_tile<rows, 1>(o, first); });
}

}  // namespace

void conv_strip(const ConvStrip<float>& s) {
  strip(s);
}
void conv_strip(const ConvStrip<double>& s) {
  strip(s);
}
void conv_outer(const ConvOuter<float>& o) {
  outer(o);
}
void conv_outer(const ConvOuter<double>& o) {
  outer(o);
}

}  // namespace bevel::detail::BEVEL_ISA
