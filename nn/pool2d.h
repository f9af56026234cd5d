// Pooling modules; see ops/pool/pool.h for shapes and errors.
#pragma once

#include <bevel/nn/module.h>
#include <bevel/ops/pool/pool.h>

namespace bevel::nn {

// The maximum of each window: nn::MaxPool2d{2}, nn::MaxPool2d{3, {.stride = 2, .padding = 1}}.
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Pair kernel, const MaxPool2dOptions& options = {}) : kernel_(kernel), options_(options) {}

  Tensor forward(const Tensor& input) override;
  MaxPool2d clone() const { return detail::cloned(*this, MaxPool2d{kernel_, options_}); }

 private:
  Pair kernel_;
  MaxPool2dOptions options_;
};

// The mean of each window.
class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Pair kernel, const AvgPool2dOptions& options = {}) : kernel_(kernel), options_(options) {}

  Tensor forward(const Tensor& input) override;
  AvgPool2d clone() const { return detail::cloned(*this, AvgPool2d{kernel_, options_}); }

 private:
  Pair kernel_;
  AvgPool2dOptions options_;
};

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
