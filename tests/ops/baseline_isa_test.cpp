// The inner loops built for older processors, which the operators on a newer one never reach.
#include "testing.h"

#include <bevel/ops/conv2d/detail/conv_tile.h>
#include <bevel/ops/kernel/isa.h>
#include <bevel/ops/matmul/detail/gemm_tile.h>

namespace bevel {
namespace {

using namespace testing;

template <class T>
std::vector<T> random_values(std::int64_t count, std::uint64_t seed) {
  return random_tensor({count}, {.dtype = dtype_of<T>, .seed = seed}).template to_vector<T>();
}

template <class T>
class BaselineIsa : public ::testing::Test {
 protected:
  static void expect_close(const std::vector<T>& got, const std::vector<double>& expected) {
    const double tolerance = sizeof(T) == 4 ? 1e-5 : 1e-13;
    EXPECT_TRUE(close(std::vector<double>(got.begin(), got.end()), expected, tolerance, tolerance));
  }
};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(BaselineIsa, Types);

TYPED_TEST(BaselineIsa, Product) {
  using T = TypeParam;
  constexpr std::int64_t m = 37, n = 21, k = 50;
  const auto a = random_values<T>(m * k, 1);
  const auto b = random_values<T>(k * n, 2);
  using Tile = detail::GemmTile<T>;
  std::vector<void (*)(const Tile&)> products{detail::baseline::gemm_tile};
#if defined(__x86_64__)
  if (detail::has_x86_64_v3()) products.push_back(detail::x86_64_v3::gemm_tile);
  if (detail::has_x86_64_v4()) products.push_back(detail::x86_64_v4::gemm_tile);
#endif
  for (int i = 0; i < 4 * static_cast<int>(products.size()); ++i) {
    const bool ta = i % 2 != 0, tb = i / 2 % 2 != 0;
    std::vector<T> c(m * n, T(1));  // added to
    products[static_cast<std::size_t>(i / 4)](
        Tile{a.data(), b.data(), c.data(), m, n, k, ta ? m : k, tb ? k : n, n, ta, tb});
    std::vector<double> expected(m * n, 1);
    for (std::size_t row = 0; row < m; ++row)
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t l = 0; l < k; ++l)
          expected[row * n + j] += static_cast<double>(a[ta ? l * m + row : row * k + l]) *
                                   static_cast<double>(b[tb ? j * k + l : l * n + j]);
    this->expect_close(c, expected);
  }
}

TYPED_TEST(BaselineIsa, StripOfAConvolution) {
  using T = TypeParam;
  constexpr std::int64_t pixels = 11, step = 3;
  const std::vector<detail::ConvRun> runs{{0, 5}, {7, 2}};
  const auto source = random_values<T>(pixels * step + 9, 1);
  for (const std::int64_t columns : {detail::conv_lanes<T> - 1, detail::conv_block<T>, detail::conv_block<T> - 3}) {
    const std::int64_t lanes = columns > detail::conv_lanes<T> ? detail::conv_block<T> : detail::conv_lanes<T>;
    const auto panel = random_values<T>(7 * lanes, 2);
    const auto bias = random_values<T>(lanes, 3);
    std::vector<T> result(static_cast<std::size_t>(pixels * columns));
    detail::baseline::conv_strip(detail::ConvStrip<T>{source.data(), step, runs.data(), 2, panel.data(), bias.data(),
                                                      result.data(), columns, pixels, columns});
    std::vector<double> expected;
    for (std::int64_t p = 0; p < pixels; ++p)
      for (std::int64_t c = 0; c < columns; ++c) {
        auto sum = static_cast<double>(bias[static_cast<std::size_t>(c)]);
        std::int64_t row = 0;
        for (const detail::ConvRun& run : runs)
          for (std::int64_t l = 0; l < run.length; ++l, ++row)
            sum += static_cast<double>(source[static_cast<std::size_t>(p * step + run.offset + l)]) *
                   static_cast<double>(panel[static_cast<std::size_t>(row * lanes + c)]);
        expected.push_back(sum);
      }
    this->expect_close(result, expected);
  }
}

TYPED_TEST(BaselineIsa, OuterProductsOfAConvolution) {
  using T = TypeParam;
  constexpr std::int64_t rows = 3, columns = 4, length = 11, step = 2;
  constexpr std::int64_t source_row = columns * step + length;
  const auto source = random_values<T>(rows * source_row, 1);
  for (const std::int64_t lanes : {detail::conv_lanes<T>, detail::conv_block<T>}) {
    const auto gradient = random_values<T>(rows * columns * lanes, 2);
    std::vector<T> sum(static_cast<std::size_t>(length * lanes), T(1));  // added to
    detail::baseline::conv_outer(detail::ConvOuter<T>{source.data(), source_row, step, gradient.data(), columns * lanes,
                                                      lanes, rows, columns, sum.data(), lanes, length, lanes});
    std::vector<double> expected(sum.size(), 1);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        for (std::int64_t m = 0; m < length; ++m)
          for (std::int64_t i = 0; i < lanes; ++i)
            expected[static_cast<std::size_t>(m * lanes + i)] +=
                static_cast<double>(source[static_cast<std::size_t>(r * source_row + c * step + m)]) *
                static_cast<double>(gradient[static_cast<std::size_t>((r * columns + c) * lanes + i)]);
    this->expect_close(sum, expected);
  }
}

}  // namespace
}  // namespace bevel
