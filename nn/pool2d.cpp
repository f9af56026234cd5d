#include <bevel/nn/pool2d.h>
#include <bevel/ops/reduction/sum.h>

namespace bevel::nn {

Tensor GlobalAvgPool::forward(const Tensor& input) {
  require_rank(input, 4, "GlobalAvgPool", "input");
  return layout_ == Layout::nhwc ? mean(input, {1, 2}) : mean(input, {2, 3});
}

}  // namespace bevel::nn
