#include <bevel/core/memory.h>
#include <bevel/core/parallel.h>
#include <bevel/ops/kernel/isa.h>
#include <bevel/ops/matmul/detail/convert.h>
#include <bevel/ops/matmul/detail/gemm.h>
#include <bevel/ops/matmul/detail/gemm_tile.h>
#include <bevel/ops/matmul/matmul.h>

#include <algorithm>
#include <atomic>
#include <memory>

namespace bevel {

namespace {
std::atomic<Precision> precision{Precision::full};
}

void set_matmul_precision(Precision value) {
  precision = value;
}
Precision matmul_precision() {
  return precision;
}

namespace detail {

namespace {

template <class T>
void run_tile(const GemmTile<T>& tile) {
#if defined(BEVEL_HAS_X86_64_V3)
  if (has_x86_64_v4()) return x86_64_v4::gemm_tile(tile);
  if (has_x86_64_v3()) return x86_64_v3::gemm_tile(tile);
#endif
  baseline::gemm_tile(tile);
}

// How a product is cut. A function of the sizes alone, since the cut decides the order of the sums.
struct Cut {
  std::int64_t rows, columns, depth;  // of a tile

  explicit Cut(const Gemm& p) : rows(std::min<std::int64_t>(p.m, 128)), columns(std::min<std::int64_t>(p.n, 512)) {
    constexpr std::int64_t smallest = 1 << 18;  // multiply-adds that are worth a tile of their own
    constexpr std::int64_t enough = 16;         // tiles
    const auto tiles = [&] { return p.batch * ((p.m + rows - 1) / rows) * ((p.n + columns - 1) / columns); };
    while (tiles() < enough && rows * columns * p.k > 2 * smallest && (rows > 32 || columns > 64)) {
      if (columns >= 2 * rows || rows <= 32)
        columns = (columns + 1) / 2;
      else
        rows = (rows + 1) / 2;
    }
    // Too few tiles and a long sum (gradients of weights): partial sums over slices, added in order.
    depth = p.k;
    if (tiles() < enough) {
      const std::int64_t slices = std::min(enough / tiles(), rows * columns * p.k / smallest);
      if (slices > 1) depth = std::max<std::int64_t>((p.k + slices - 1) / slices, 256);
    }
  }
};

template <class T>
void fill_zero(T* c, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i) std::fill_n(c + i * stride, columns, T(0));
}

template <class T>
T* offset(const GemmOperand& x, std::int64_t batch, std::int64_t row, std::int64_t column) {
  if (x.transposed) std::swap(row, column);
  return static_cast<T*>(x.data) + batch * x.batch_stride + row * x.row_stride + column;
}

template <class T>
void run(const Gemm& p) {
  const Cut cut(p);
  const std::int64_t row_tiles = (p.m + cut.rows - 1) / cut.rows;
  const std::int64_t column_tiles = (p.n + cut.columns - 1) / cut.columns;
  const std::int64_t slices = p.k == 0 ? 1 : (p.k + cut.depth - 1) / cut.depth;
  const std::int64_t tiles = p.batch * row_tiles * column_tiles;
  const std::int64_t tile_size = cut.rows * cut.columns;
  std::shared_ptr<Buffer> partials;  // [tiles, slices - 1] tiles: the first slice goes to c itself
  if (slices > 1)
    partials = Buffer::allocate(static_cast<std::size_t>(tiles * (slices - 1) * tile_size) * sizeof(T), cpu);
  T* const partial = partials ? static_cast<T*>(partials->data()) : nullptr;

  const auto place = [&](std::int64_t tile, std::int64_t slice) {
    const std::int64_t batch = tile / (row_tiles * column_tiles);
    const std::int64_t row = tile / column_tiles % row_tiles * cut.rows;
    const std::int64_t column = tile % column_tiles * cut.columns;
    const std::int64_t first = slice * cut.depth;
    GemmTile<T> t{offset<T>(p.a, batch, row, first),
                  offset<T>(p.b, batch, first, column),
                  offset<T>(p.c, batch, row, column),
                  std::min(cut.rows, p.m - row),
                  std::min(cut.columns, p.n - column),
                  std::min(cut.depth, p.k - first),
                  p.a.row_stride,
                  p.b.row_stride,
                  p.c.row_stride,
                  p.a.transposed,
                  p.b.transposed};
    if (slice > 0) {
      t.c = partial + (tile * (slices - 1) + slice - 1) * tile_size;
      t.c_stride = t.n;
    }
    return t;
  };
  const auto multiply = [&](std::int64_t i) {
    const GemmTile<T> t = place(i / slices, i % slices);
    if (!p.accumulate || i % slices > 0) fill_zero(t.c, t.m, t.n, t.c_stride);
    if (t.k > 0) run_tile(t);
  };
  const bool tiny = p.batch * p.m * p.n * p.k < (1 << 16);
  if (tiny)
    for (std::int64_t i = 0; i < tiles * slices; ++i) multiply(i);
  else
    parallel_for(tiles * slices, multiply);
  if (slices == 1) return;
  parallel_for(tiles, [&](std::int64_t tile) {
    const GemmTile<T> t = place(tile, 0);
    for (std::int64_t slice = 1; slice < slices; ++slice) {
      const T* from = place(tile, slice).c;
      for (std::int64_t i = 0; i < t.m; ++i)
        for (std::int64_t j = 0; j < t.n; ++j) t.c[i * t.c_stride + j] += from[i * t.n + j];
    }
  });
}

// From the first element of the stack to the end of the last row.
std::int64_t extent(const GemmOperand& x, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  if (x.transposed) std::swap(rows, columns);
  return rows == 0 || columns == 0 ? 0 : (batch - 1) * x.batch_stride + (rows - 1) * x.row_stride + columns;
}

std::shared_ptr<Buffer> floats(std::int64_t count) {
  return Buffer::allocate(static_cast<std::size_t>(count) * sizeof(float), cpu);
}

template <class Half>
void run_half(const Gemm& p) {
  const std::int64_t a_size = extent(p.a, p.batch, p.m, p.k);
  const std::int64_t b_size = extent(p.b, p.batch, p.k, p.n);
  const std::int64_t c_size = extent(p.c, p.batch, p.m, p.n);
  const auto a = floats(a_size);
  const auto b = floats(b_size);
  convert(static_cast<const Half*>(p.a.data), static_cast<float*>(a->data()), a_size);
  convert(static_cast<const Half*>(p.b.data), static_cast<float*>(b->data()), b_size);
  Gemm wide = p;
  wide.a.data = a->data();
  wide.b.data = b->data();
  if (p.result_dtype == f32) return run<float>(wide);
  const auto c = floats(c_size);  // read whole: c may be part of wider rows
  wide.c.data = c->data();
  convert(static_cast<const Half*>(p.c.data), static_cast<float*>(c->data()), c_size);
  run<float>(wide);
  convert(static_cast<const float*>(c->data()), static_cast<Half*>(p.c.data), c_size);
}

}  // namespace

void gemm(Cpu, const Gemm& p) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  switch (p.dtype) {
    case Dtype::f32:
      return run<float>(p);
    case Dtype::f64:
      return run<double>(p);
    case Dtype::bf16:
      return run_half<bfloat16>(p);
    case Dtype::f16:
      return run_half<float16>(p);
    default:
      fail("gemm: not defined for ", p.dtype);
  }
}

}  // namespace detail

}  // namespace bevel
