// Lion (Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023):
//   p = p - lr * weight_decay * p
//   p = p - lr * sign(beta1 * m + (1 - beta1) * g)
//   m = beta2 * m + (1 - beta2) * g
// with sign(0) = 0. Rates are three to ten times smaller, and weight decay as much larger, than for AdamW.
#pragma once

#include <bevel/nn/optim/optimizer.h>

#include <vector>

namespace bevel::optim {

// Order of the fields as given.
struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

class Lion : public Optimizer {
 public:
  // Error unless the betas lie in [0, 1) and weight_decay is finite and not negative.
  explicit Lion(const std::vector<Tensor>& parameters, LionOptions options = {});
  // A further group with options of its own.
  void add_group(const std::vector<Tensor>& parameters, LionOptions options);

 private:
  void update(const Batch& batch) override;
  detail::Progress progress(std::size_t group, std::int64_t steps) const override;

  std::vector<LionOptions> options_;
};

}  // namespace bevel::optim
