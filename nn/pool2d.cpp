#include <bevel/nn/pool2d.h>

namespace bevel::nn {

Tensor MaxPool2d::forward(const Tensor& input) {
  return max_pool2d(input, kernel_, options_);
}

Tensor AvgPool2d::forward(const Tensor& input) {
  return avg_pool2d(input, kernel_, options_);
}

Tensor GlobalAvgPool::forward(const Tensor& input) {
  return global_avg_pool(input, layout_);
}

}  // namespace bevel::nn
