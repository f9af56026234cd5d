// Stochastic gradient descent with momentum (Polyak 1964; Nesterov's form as in Sutskever et al., "On the importance of
// initialization and momentum in deep learning", ICML 2013):
//   g = gradient + weight_decay * p
//   m = momentum * m + (1 - dampening) * g     (m = g in a parameter's first step)
//   p = p - lr * (nesterov ? g + momentum * m : m)
#pragma once

#include <bevel/nn/optim/optimizer.h>

#include <vector>

namespace bevel::optim {

// Order of the fields as given.
struct SgdOptions {
  double lr = 1e-2;
  double momentum = 0;  // 0 keeps no moments
  double dampening = 0;
  double weight_decay = 0;  // the L2 penalty's gradient
  bool nesterov = false;    // needs momentum > 0 and dampening = 0
};

class SGD : public Optimizer {
 public:
  // Error for options that are negative, not finite or do not fit together.
  explicit SGD(const std::vector<Tensor>& parameters, SgdOptions options = {});
  // A further group with options of its own; momentum must be 0 in all groups or in none.
  void add_group(const std::vector<Tensor>& parameters, SgdOptions options);

 private:
  void update(const Batch& batch) override;
  detail::Progress progress(std::size_t group, std::int64_t steps) const override;

  std::vector<SgdOptions> options_;
};

}  // namespace bevel::optim
