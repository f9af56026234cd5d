#include <bevel/nn/conv2d.h>
#include <bevel/nn/init.h>
#include <bevel/ops/conv2d/conv2d.h>

#include <algorithm>

namespace bevel::nn {

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options) : options_(options) {
  require(in_channels >= 1 && out_channels >= 1, "Conv2d: in_channels and out_channels must be at least 1; got ",
          in_channels, " and ", out_channels);
  require(options.groups >= 1 && in_channels % options.groups == 0 && out_channels % options.groups == 0,
          "Conv2d: groups must divide the ", in_channels, " input and ", out_channels, " output channels; got ",
          options.groups);
  const auto check = [](const char* name, const Pair& pair, std::int64_t least) {
    require(std::min(pair.h, pair.w) >= least, "Conv2d: ", name, " must be at least ", least, "; got ", pair);
  };
  check("kernel", options.kernel, 1);
  check("stride", options.stride, 1);
  check("padding", options.padding, 0);
  check("dilation", options.dilation, 1);
  weight = Tensor::empty({out_channels, options.kernel.h, options.kernel.w, in_channels / options.groups});
  if (options.bias) bias = Tensor::empty({out_channels});
  default_init(weight, bias);
  weight.set_requires_grad();
  if (options.bias) bias.set_requires_grad();
}

Tensor Conv2d::forward(const Tensor& input) {
  return conv2d(input, weight, bias,
                {.stride = options_.stride,
                 .padding = options_.padding,
                 .dilation = options_.dilation,
                 .groups = options_.groups,
                 .layout = options_.layout});
}

void Conv2d::visit(Visitor& visitor) {
  visitor("weight", weight);
  visitor("bias", bias);
}

Conv2d Conv2d::clone() const {
  Conv2d copy(options_);
  copy.weight = clone_leaf(weight);
  copy.bias = clone_leaf(bias);
  return detail::cloned(*this, std::move(copy));
}

}  // namespace bevel::nn
