#include <bevel/nn/init.h>
#include <bevel/nn/linear.h>

namespace bevel::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options)
    : activation_(options.activation) {
  require(in_features >= 1 && out_features >= 1, "Linear: in_features and out_features must be at least 1; got ",
          in_features, " and ", out_features);
  weight = Tensor::empty({out_features, in_features});
  if (options.bias) bias = Tensor::empty({out_features});
  default_init(weight, bias);
  weight.set_requires_grad();
  if (options.bias) bias.set_requires_grad();
}

Tensor Linear::forward(const Tensor& input) {
  return linear(input, weight, bias, activation_);
}

void Linear::visit(Visitor& visitor) {
  visitor("weight", weight);
  visitor("bias", bias);
}

Linear Linear::clone() const {
  Linear copy(activation_);
  copy.weight = clone_leaf(weight);
  copy.bias = clone_leaf(bias);
  return detail::cloned(*this, std::move(copy));
}

}  // namespace bevel::nn
