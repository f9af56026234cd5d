// Learning rate schedules: pure functions of the step, and an object that walks an optimizer along one.
//
//   optim::Schedule schedule{optimizer, optim::OneCycle{.max_lr = 1e-2, .steps = 3000}};
//   for (...) { ...; optimizer.step(); schedule.step(); }
//
// Steps count from 0; beyond the last step of a schedule its final rate stays.
#pragma once

#include <bevel/nn/optim/optimizer.h>

#include <cstdint>
#include <functional>

namespace bevel::optim {

// lr for ever.
struct Constant {
  double lr = 1e-3;
  double operator()(std::int64_t step) const;
};

// lr * factor^floor(step / every).
struct StepDecay {
  double lr = 1e-3;
  std::int64_t every = 1000;
  double factor = 0.1;
  double operator()(std::int64_t step) const;
};

// A linear rise from lr / warmup at step 0 to lr at step warmup - 1, then half a cosine from lr at step `warmup` to
// final_lr at step `steps` (Loshchilov and Hutter, "SGDR", ICLR 2017, without restarts).
struct Cosine {
  double lr = 1e-3;
  std::int64_t steps = 1000;
  double final_lr = 0;
  std::int64_t warmup = 0;
  double operator()(std::int64_t step) const;
};

// The one-cycle policy (Smith and Topin, "Super-convergence", 2018) in its usual form: half a cosine from
// max_lr / div_factor at step 0 up to max_lr at step pct_start * steps - 1, then half a cosine down to
// max_lr / (div_factor * final_div_factor) at step steps - 1. Without room for a rise it begins at max_lr. Momentum is
// left as it is.
struct OneCycle {
  double max_lr = 1e-2;
  std::int64_t steps = 1000;
  double pct_start = 0.1;
  double div_factor = 25;
  double final_div_factor = 1e4;
  double operator()(std::int64_t step) const;
};

// Sets optimizer.lr to rate(step), at first for step 0.
class Schedule {
 public:
  // The optimizer must live, and stay where it is, as long as the schedule is stepped.
  Schedule(Optimizer& optimizer, std::function<double(std::int64_t)> rate);

  // Goes to the next step; called once after each optimizer.step(). Within a captured step (core/capture.h) replays do
  // it, too; the schedule must then stay where it is.
  void step();
  std::int64_t position() const { return position_; }
  // Goes to any step, such as that of a checkpoint. Error if negative.
  void set_position(std::int64_t position);

 private:
  Optimizer* optimizer_;
  std::function<double(std::int64_t)> rate_;
  std::int64_t position_ = 0;
};

}  // namespace bevel::optim
