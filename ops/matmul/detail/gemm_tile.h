// One tile of a matrix product on one thread, compiled for each instruction set (see bevel_add_isa_sources).
#pragma once

#include <cstdint>

namespace bevel::detail {

// c += a b with a [m, k], b [k, n], c [m, n]; transposed operands lie in memory as [k, m] and [n, k].
template <class T>
struct GemmTile {
  const T* a;
  const T* b;
  T* c;
  std::int64_t m, n, k;
  std::int64_t a_stride, b_stride, c_stride;  // between rows in memory
  bool a_transposed, b_transposed;
};

namespace baseline {
void gemm_tile(const GemmTile<float>& tile);
void gemm_tile(const GemmTile<double>& tile);
}  // namespace baseline

namespace x86_64_v3 {
void gemm_tile(const GemmTile<float>& tile);
void gemm_tile(const GemmTile<double>& tile);
}  // namespace x86_64_v3

namespace x86_64_v4 {
void gemm_tile(const GemmTile<float>& tile);
void gemm_tile(const GemmTile<double>& tile);
}  // namespace x86_64_v4

}  // namespace bevel::detail
