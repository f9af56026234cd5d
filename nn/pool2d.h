// Pooling modules.
#pragma once

#include <bevel/nn/module.h>
#include <bevel/ops/layout.h>

namespace bevel::nn {

// The mean over the picture: [N, H, W, C], or [N, C, H, W] for Layout::nchw, to [N, C].
class GlobalAvgPool : public Module {
 public:
  explicit GlobalAvgPool(Layout layout = Layout::nhwc) : layout_(layout) {}

  Tensor forward(const Tensor& input) override;
  GlobalAvgPool clone() const { return detail::cloned(*this, GlobalAvgPool{layout_}); }

 private:
  Layout layout_;
};

}  // namespace bevel::nn
