// Optimizer: changes parameters by their gradients.
//
//   optim::AdamW optimizer{net.parameters(), {.lr = 1e-3, .weight_decay = 0.05}};
//   optimizer.zero_grad();  loss.backward();  optimizer.step();
//
// A step reads every parameter, gradient and moment once and writes parameter and moments once: on the CPU in one loop
// a parameter, on a GPU in one launch for all parameters of a dtype. Learning rates and step counts lie in the device's
// memory, so a step can be captured (core/capture.h), and nothing waits for the device.
//
// A parameter that is frozen (requires_grad() is off) or has no gradient is left as it is, and so are its moments and
// its step count; one that is given twice (tied) counts once. Parameters are leaves of f32 or f64. A parameter of f32
// with a half copy (core/half_copy.h) has that written in the same pass. Moving the parameters to another device
// (Module::to) takes moments and counts along at the next step.
#pragma once

#include <bevel/core/tensor.h>
#include <bevel/nn/detail/factor.h>
#include <bevel/nn/named_tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace bevel::optim {

namespace detail {
class Place;
struct Progress;
struct Rates;
}  // namespace detail

// Order of the fields as given.
struct StepOptions {
  // A number of f32 or f64 on the parameters' device that multiplies every gradient, such as 1 / scale of a gradient
  // scaler. Where it is 0 the step is skipped on the device: nothing changes, not even counts. Undefined: 1.
  Tensor factor = {};
};

class Optimizer {
 public:
  virtual ~Optimizer();

  // Lets the gradients of all parameters go; nothing is written.
  void zero_grad();
  // One update of all parameters that have a gradient.
  void step(const StepOptions& options = {});

  // The learning rate of the first group. Setting it keeps the ratios between the groups' rates. Error if
  // negative or not finite.
  double lr() const;
  void set_lr(double lr);

  // From now on a step uses the gradients multiplied by min(1, max_norm / (norm + 1e-6)), where norm is that of all
  // gradients together (times StepOptions::factor). The gradients themselves stay as they are: nothing is written for
  // it. 0 ends it. Error if negative or not finite; all parameters must then be on one device.
  void set_max_grad_norm(double max_norm);
  // The norm in the last step, f64 of shape [] on the parameters' device: a copy. Undefined before the first such step.
  Tensor grad_norm() const;

  // From now on every step also moves an average of each parameter: average += (1 - decay) * (parameter - average), in
  // the same pass. An average starts as the parameter after its first update, or as it is now if it had updates before.
  // A parameter that a step leaves alone leaves its average alone. Error unless 0 <= decay < 1.
  void keep_average(double decay);
  // The averages, in the order of the parameters; of a parameter without one yet, its own values. Handles, not copies.
  std::vector<Tensor> averages() const;
  // Exchanges the values of parameters and averages, in place. Twice is as before. See AverageScope.
  void swap_averages();

  // Step counts, moments and averages, for checkpoints: "3.steps", "3.m", "3.average" for parameter 3 in the order
  // given. Copies of the counts (this waits for the device), handles to the others.
  NamedTensors state() const;
  // Goes on from a state taken with the same parameters, in the memory that moments have already. Error if they do not
  // match; nothing has changed then.
  void load_state(std::span<const NamedTensor> state);

 protected:
  // One parameter and what is kept for it. Moments are of the parameter's shape and dtype, and follow it to its device.
  struct Item {
    Tensor parameter;
    std::size_t group = 0;
    std::size_t index = 0;
    std::int64_t steps = 0;  // updates so far, as far as the host knows: `place` knows better
    std::vector<Tensor> moments{};
    Tensor average{};
    std::shared_ptr<detail::Place> place{};  // where its progress is; null before its first step
  };
  // Items of one dtype on one device, all with gradients, and what their update needs.
  struct Batch {
    Device device;
    Dtype dtype = f32;
    std::vector<Item*> items{};
    std::shared_ptr<detail::Place> place{};
    bevel::detail::Factor factor{};
    double average_rest = 0;
  };

  // `moment_names` names the moments of each parameter, which start as zeros; string literals.
  explicit Optimizer(std::vector<const char*> moment_names);
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;

  // A further group with rate `lr`. Error for a tensor that is not a leaf of f32 or f64, or is in another group
  // already.
  void add_items(const char* function, std::span<const Tensor> parameters, double lr);
  virtual void update(const Batch& batch) = 0;
  // What an item of a group needs to know with so many updates behind it.
  virtual detail::Progress progress(std::size_t group, std::int64_t steps) const = 0;

 private:
  std::vector<Batch> collect();
  void prepare(Item& item);
  std::shared_ptr<detail::Place> place_on(Device device);
  void fetch_counts() const;
  bevel::detail::Factor gradient_factor(const std::vector<Batch>& batches, const Tensor& factor);
  void register_replay(const std::vector<Batch>& batches) const;

  std::vector<const char*> moment_names_;
  mutable std::vector<Item> items_;
  std::shared_ptr<detail::Rates> rates_;
  std::vector<std::shared_ptr<detail::Place>> places_;
  std::shared_ptr<detail::Place> norm_place_;  // where the last norm is
  double max_norm_ = 0;
  double average_rest_ = 0;  // 1 - decay; 0 where no average is kept
};

// While it lives the parameters hold their averages, for evaluation or saving.
class AverageScope {
 public:
  explicit AverageScope(Optimizer& optimizer) : optimizer_(optimizer) { optimizer_.swap_averages(); }
  ~AverageScope();
  AverageScope(const AverageScope&) = delete;
  AverageScope& operator=(const AverageScope&) = delete;

 private:
  Optimizer& optimizer_;
};

}  // namespace bevel::optim
