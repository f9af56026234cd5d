// Optimizer: changes parameters by their gradients.
//
//   optim::AdamW optimizer{net.parameters(), {.lr = 1e-3, .weight_decay = 0.05}};
//   optimizer.zero_grad();  loss.backward();  optimizer.step();
//
// A step reads every parameter, gradient and moment once and writes parameter and moments once: on the CPU in one loop
// a parameter, on a GPU in one launch for many parameters. A parameter without a gradient is left as it is, and so are
// its moments and its step count; one that is given twice (tied) counts once. Parameters are leaves of f32 or f64.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/nn/named_tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace bevel::optim {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Lets the gradients of all parameters go; nothing is written.
  void zero_grad();
  // One update of all parameters that have a gradient.
  void step();

  // The learning rate of the first group. Setting it keeps the ratios between the groups' rates. Error if
  // negative or not finite.
  double lr() const;
  void set_lr(double lr);

  // Step counts and moments, for checkpoints: "3.steps", "3.m" for parameter 3 in the order given. Copies of the
  // counts, handles to the moments.
  NamedTensors state() const;
  // Goes on from a state taken with the same parameters. Error if they do not match; nothing has changed then.
  void load_state(std::span<const NamedTensor> state);

 protected:
  // One parameter and what is kept for it. Moments are of the parameter's shape and dtype, and follow it to its device.
  struct Item {
    Tensor parameter;
    std::size_t group = 0;
    std::int64_t steps = 0;  // updates so far
    std::vector<Tensor> moments{};
  };

  // `moment_names` names the moments of each parameter, which start as zeros; string literals.
  explicit Optimizer(std::vector<const char*> moment_names) : moment_names_(std::move(moment_names)) {}
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;

  // A further group with rate `lr`. Error for a tensor that is not a leaf of f32 or f64, or is in another group
  // already.
  void add_items(const char* function, std::span<const Tensor> parameters, double lr);
  // Sees items of one group, device and dtype, all with gradients; `lr` is the group's. steps counts this update
  // already.
  virtual void update(std::size_t group, double lr, std::span<Item* const> items) = 0;
  std::size_t groups() const { return rates_.size(); }

 private:
  std::vector<const char*> moment_names_;
  std::vector<Item> items_;
  std::vector<double> base_rates_;  // of each group, as given
  std::vector<double> rates_;       // now
};

}  // namespace bevel::optim
