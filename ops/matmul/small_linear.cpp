#include <bevel/ops/matmul/detail/small_linear.h>

#include <algorithm>

namespace bevel::detail {

bool is_small_linear(const Tensor& x, const Tensor& weight) {
  // Up to here a launch costs more than the sums, which one block for each 16 x 16 results then runs through.
  constexpr std::int64_t most_products = std::int64_t{1} << 21;
  constexpr std::int64_t longest_sum = 512;
  const std::int64_t rows = x.size(0);
  const std::int64_t in = weight.size(1);
  const std::int64_t out = weight.size(0);
  return x.device().is_cuda() && x.dtype() == f32 && std::min({rows, in, out}) > 0 &&
         std::max({rows, in, out}) <= longest_sum && rows * in * out <= most_products;
}

}  // namespace bevel::detail
