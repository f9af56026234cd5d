#include <bevel/nn/optim/sgd.h>
#include <bevel/nn/schedule.h>

#include <cmath>
#include <numbers>

#include "testing.h"

namespace bevel {
namespace {

using bevel::testing::throws_error;
using namespace optim;

TEST(ScheduleTest, Constant) {
  EXPECT_EQ(Constant{0.5}(0), 0.5);
  EXPECT_EQ(Constant{0.5}(1000), 0.5);
}

TEST(ScheduleTest, StepDecay) {
  const StepDecay rate{.lr = 2, .every = 10, .factor = 0.5};
  EXPECT_DOUBLE_EQ(rate(0), 2);
  EXPECT_DOUBLE_EQ(rate(9), 2);
  EXPECT_DOUBLE_EQ(rate(10), 1);
  EXPECT_DOUBLE_EQ(rate(35), 0.25);
  EXPECT_TRUE(throws_error([] { StepDecay{.every = 0}(1); }, {"StepDecay", "every"}));
}

TEST(ScheduleTest, Cosine) {
  const Cosine rate{.lr = 1, .steps = 100, .final_lr = 0.2};
  EXPECT_DOUBLE_EQ(rate(0), 1);
  EXPECT_DOUBLE_EQ(rate(50), 0.6);
  EXPECT_DOUBLE_EQ(rate(25), 0.2 + 0.8 * 0.5 * (1 + std::cos(std::numbers::pi / 4)));
  EXPECT_DOUBLE_EQ(rate(100), 0.2);
  EXPECT_DOUBLE_EQ(rate(500), 0.2);
  const Cosine warm{.lr = 1, .steps = 110, .warmup = 10};
  EXPECT_DOUBLE_EQ(warm(0), 0.1);
  EXPECT_DOUBLE_EQ(warm(9), 1);
  EXPECT_DOUBLE_EQ(warm(10), 1);
  EXPECT_DOUBLE_EQ(warm(60), 0.5);
  EXPECT_NEAR(warm(110), 0, 1e-15);
  EXPECT_TRUE(throws_error([] { Cosine{.steps = 5, .warmup = 5}(1); }, {"Cosine", "5 and 5"}));
}

TEST(ScheduleTest, OneCycle) {
  const OneCycle rate{.max_lr = 1, .steps = 1000, .pct_start = 0.1};
  EXPECT_NEAR(rate(0), 1.0 / 25, 1e-15);
  EXPECT_DOUBLE_EQ(rate(99), 1);
  EXPECT_NEAR(rate(33), 1 + (0.04 - 1) * 0.5 * (1 + std::cos(std::numbers::pi / 3)), 1e-12);
  EXPECT_NEAR(rate(99 + 450), 0.5 * (1 + 0.04 / 1e4), 1e-12);
  EXPECT_NEAR(rate(999), 0.04 / 1e4, 1e-15);
  EXPECT_NEAR(rate(5000), 0.04 / 1e4, 1e-15);
  for (std::int64_t step = 1; step < 1000; ++step)
    EXPECT_TRUE(step <= 99 ? rate(step) > rate(step - 1) : rate(step) < rate(step - 1)) << step;
}

TEST(ScheduleTest, OneCycleOfFewSteps) {
  EXPECT_DOUBLE_EQ((OneCycle{.max_lr = 1, .steps = 5})(0), 1);  // no room for a rise
  EXPECT_DOUBLE_EQ((OneCycle{.max_lr = 1, .steps = 1})(0), 1);
  EXPECT_DOUBLE_EQ((OneCycle{.max_lr = 1, .steps = 10, .pct_start = 1})(9), 1);
  EXPECT_NEAR((OneCycle{.max_lr = 1, .steps = 5})(4), 0.04 / 1e4, 1e-15);
  EXPECT_TRUE(throws_error([] { OneCycle{.steps = 0}(0); }, {"OneCycle", "steps"}));
  EXPECT_TRUE(throws_error([] { OneCycle{.div_factor = 0}(0); }, {"OneCycle", "div_factor"}));
}

TEST(ScheduleTest, SetsTheRateOfTheOptimizer) {
  SGD optimizer{{}, {.lr = 9}};
  Schedule schedule{optimizer, StepDecay{.lr = 1, .every = 2, .factor = 0.5}};
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i) {
    rates.push_back(optimizer.lr());
    schedule.step();
  }
  EXPECT_EQ(rates, (std::vector<double>{1, 1, 0.5, 0.5, 0.25}));
  schedule.set_position(8);
  EXPECT_EQ(optimizer.lr(), 0.0625);
  EXPECT_EQ(schedule.position(), 8);
  EXPECT_TRUE(throws_error([&] { schedule.set_position(-1); }, {"position"}));
}

}  // namespace
}  // namespace bevel
