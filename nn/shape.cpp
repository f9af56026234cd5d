#include <bevel/nn/shape.h>
#include <bevel/ops/shape/reshape.h>

namespace bevel::nn {

Tensor Flatten::forward(const Tensor& input) {
  require(input.rank() >= 1, "Flatten: an input with a batch axis is needed; its shape is []");
  return input.rank() == 1 ? unsqueeze(input, 1) : flatten(input, 1);
}

}  // namespace bevel::nn
