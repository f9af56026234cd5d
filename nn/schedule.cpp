#include <bevel/nn/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace bevel::optim {

namespace {

// Half a cosine from `begin` at 0 to `end` at 1.
double half_cosine(double begin, double end, double fraction) {
  const double t = std::clamp(fraction, 0.0, 1.0);
  return end + (begin - end) * 0.5 * (1 + std::cos(std::numbers::pi * t));
}

}  // namespace

double Constant::operator()(std::int64_t) const {
  return lr;
}

double StepDecay::operator()(std::int64_t step) const {
  require(every >= 1, "StepDecay: every must be at least 1; got ", every);
  const std::int64_t decays = step / every;
  return lr * std::pow(factor, static_cast<double>(decays));
}

double Cosine::operator()(std::int64_t step) const {
  require(warmup >= 0 && steps > warmup, "Cosine: steps must be more than warmup, which is not negative; got ", steps,
          " and ", warmup);
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  return half_cosine(lr, final_lr, static_cast<double>(step - warmup) / static_cast<double>(steps - warmup));
}

double OneCycle::operator()(std::int64_t step) const {
  require(steps >= 1 && pct_start >= 0 && pct_start <= 1,
          "OneCycle: steps must be at least 1 and pct_start in [0, 1]; ", "got ", steps, " and ", pct_start);
  require(div_factor > 0 && final_div_factor > 0, "OneCycle: div_factor and final_div_factor must be positive; got ",
          div_factor, " and ", final_div_factor);
  const auto position = static_cast<double>(step);
  const double initial = max_lr / div_factor;
  const double top = std::max(0.0, pct_start * static_cast<double>(steps) - 1);
  const double last = static_cast<double>(steps - 1);
  if (position < top) return half_cosine(initial, max_lr, position / top);
  if (last <= top) return position > last ? initial / final_div_factor : max_lr;
  return half_cosine(max_lr, initial / final_div_factor, (position - top) / (last - top));
}

Schedule::Schedule(Optimizer& optimizer, std::function<double(std::int64_t)> rate)
    : optimizer_(&optimizer), rate_(std::move(rate)) {
  set_position(0);
}

void Schedule::step() {
  set_position(position_ + 1);
  // In a captured step replays go on with it; the first has been done just now.
  bevel::detail::before_replay([this, is_first = true](bevel::detail::Transfers&) mutable {
    if (!std::exchange(is_first, false)) set_position(position_ + 1);
  });
}

void Schedule::set_position(std::int64_t position) {
  require(position >= 0, "Schedule: the position must not be negative; got ", position);
  optimizer_->set_lr(rate_(position));
  position_ = position;
}

}  // namespace bevel::optim
