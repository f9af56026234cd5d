// Conv2d: two-dimensional convolution; see ops/conv2d/conv2d.h for the formula.
#pragma once

#include <bevel/nn/module.h>
#include <bevel/ops/layout.h>
#include <bevel/ops/pair.h>

#include <cstdint>

namespace bevel::nn {

// Order of the fields as given.
struct Conv2dOptions {
  Pair kernel = 1;
  Pair stride = 1;
  Pair padding = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;  // must divide both channel counts
  bool bias = true;
  Layout layout = Layout::nhwc;
};

class Conv2d : public Module {
 public:
  // Starts from default_init (init.h) with numbers of default_generator(). Error for options out of range.
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options = {});

  // [N, H, W, in_channels] to [N, H', W', out_channels], or with the channels second for Layout::nchw.
  Tensor forward(const Tensor& input) override;
  void visit(Visitor& visitor) override;
  Conv2d clone() const;

  const Conv2dOptions& options() const { return options_; }

  Tensor weight;  // [out_channels, kernel height, kernel width, in_channels / groups] in both layouts
  Tensor bias;    // [out_channels]; undefined without

 private:
  explicit Conv2d(const Conv2dOptions& options) : options_(options) {}

  Conv2dOptions options_;
};

}  // namespace bevel::nn
