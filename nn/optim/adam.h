// Adam (Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015) and AdamW (Loshchilov and Hutter,
// "Decoupled weight decay regularization", ICLR 2019), with t the number of updates of the parameter so far:
//   Adam:   g = gradient + weight_decay * p
//   AdamW:  g = gradient,  p = p - lr * weight_decay * p first
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g^2
//   p = p - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)
#pragma once

#include <bevel/nn/optim/optimizer.h>

#include <vector>

namespace bevel::optim {

// Order of the fields as given.
struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
};

class Adam : public Optimizer {
 public:
  // Error unless the betas lie in [0, 1), eps and weight_decay are finite and not negative.
  explicit Adam(const std::vector<Tensor>& parameters, AdamOptions options = {});
  // A further group with options of its own.
  void add_group(const std::vector<Tensor>& parameters, AdamOptions options);

 private:
  void update(const Batch& batch) override;
  detail::Progress progress(std::size_t group, std::int64_t steps) const override;

  std::vector<AdamOptions> options_;
};

class AdamW : public Optimizer {
 public:
  // Error unless the betas lie in [0, 1), eps and weight_decay are finite and not negative.
  explicit AdamW(const std::vector<Tensor>& parameters, AdamWOptions options = {});
  // A further group with options of its own, such as biases without weight decay.
  void add_group(const std::vector<Tensor>& parameters, AdamWOptions options);

 private:
  void update(const Batch& batch) override;
  detail::Progress progress(std::size_t group, std::int64_t steps) const override;

  std::vector<AdamWOptions> options_;
};

}  // namespace bevel::optim
