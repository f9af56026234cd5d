// Eigen's threads would cut the product by their number and change the bits.
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_AUTOMATIC_RESIZING
#include <bevel/ops/matmul/detail/gemm_tile.h>

#include <Eigen/Core>

namespace bevel::detail::BEVEL_ISA {

namespace {

template <class T, int order>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, order>;

// A transposed row-major matrix is a column-major one.
template <int a_order, int b_order, class T>
void multiply(const GemmTile<T>& tile) {
  using A = Eigen::Map<const Matrix<T, a_order>, Eigen::Unaligned, Eigen::OuterStride<>>;
  using B = Eigen::Map<const Matrix<T, b_order>, Eigen::Unaligned, Eigen::OuterStride<>>;
  using C = Eigen::Map<Matrix<T, Eigen::RowMajor>, Eigen::Unaligned, Eigen::OuterStride<>>;
  const A a(tile.a, tile.m, tile.k, Eigen::OuterStride<>(tile.a_stride));
  const B b(tile.b, tile.k, tile.n, Eigen::OuterStride<>(tile.b_stride));
  C c(tile.c, tile.m, tile.n, Eigen::OuterStride<>(tile.c_stride));
  c.noalias() += a * b;
}

template <class T>
void choose(const GemmTile<T>& tile) {
  constexpr int row = Eigen::RowMajor;
  constexpr int column = Eigen::ColMajor;
  if (tile.a_transposed)
    tile.b_transposed ? multiply<column, column>(tile) : multiply<column, row>(tile);
  else
    tile.b_transposed ? multiply<row, column>(tile) : multiply<row, row>(tile);
}

}  // namespace

void gemm_tile(const GemmTile<float>& tile) {
  choose(tile);
}
void gemm_tile(const GemmTile<double>& tile) {
  choose(tile);
}

}  // namespace bevel::detail::BEVEL_ISA
