// Linear: y = activation(x W^T + b).
#pragma once

#include <bevel/nn/module.h>
#include <bevel/ops/matmul/linear.h>

#include <cstdint>

namespace bevel::nn {

// Order of the fields as given.
struct LinearOptions {
  bool bias = true;
  Activation activation = Activation::none;  // on CUDA relu costs no pass of its own
};

class Linear : public Module {
 public:
  // Starts from default_init (init.h) with numbers of default_generator(). Error unless both sizes are at least 1.
  Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options = {});

  // [..., in_features] to [..., out_features].
  Tensor forward(const Tensor& input) override;
  void visit(Visitor& visitor) override;
  Linear clone() const;

  Tensor weight;  // [out_features, in_features]
  Tensor bias;    // [out_features]; undefined without

 private:
  explicit Linear(Activation activation) : activation_(activation) {}

  Activation activation_;
};

}  // namespace bevel::nn
