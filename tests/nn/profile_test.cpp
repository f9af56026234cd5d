#include <bevel/core/autograd.h>
#include <bevel/core/capture.h>
#include <bevel/core/profile.h>
#include <bevel/nn/linear.h>
#include <bevel/nn/optim/sgd.h>
#include <bevel/ops/loss/smooth_l1.h>

#include <algorithm>

#include "testing.h"

namespace bevel {
namespace {

using namespace bevel::testing;

class ProfileTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, ProfileTest, ::testing::ValuesIn(build_devices()), device_name);

TEST_P(ProfileTest, TimesOperatorsByPhase) {
  nn::Linear linear{4, 2};
  linear.to(device());
  optim::SGD optimizer{linear.parameters()};
  const Tensor x = random_tensor({3, 4}, {.dtype = f32, .device = device()});
  const Tensor y = random_tensor({3, 2}, {.dtype = f32, .device = device()});
  const auto step = [&](const Tensor& input) {
    optimizer.zero_grad();
    smooth_l1(linear(input), y).backward();
    optimizer.step();
  };
  Profiler profiler(device());
  for (int i = 0; i < 1000; ++i) step(x);  // more marks than are kept at a time
  const std::vector<ProfileRow> rows = profiler.rows();
  const auto find = [&](const std::string& phase, const std::string& name) {
    const auto it = std::find_if(rows.begin(), rows.end(),
                                 [&](const ProfileRow& row) { return row.phase == phase && row.name == name; });
    return it == rows.end() ? ProfileRow() : *it;
  };
  for (const auto& [phase, name] : {std::pair{"forward", "linear"},
                                    {"forward", "smooth_l1"},
                                    {"backward", "smooth_l1"},
                                    {"backward", "linear"},
                                    {"backward", "accumulate"},
                                    {"optimizer", "step"}}) {
    EXPECT_EQ(find(phase, name).calls, 1000) << phase << " " << name;
    EXPECT_GT(find(phase, name).seconds, 0) << phase << " " << name;
  }
  for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_GE(rows[i - 1].seconds, rows[i].seconds);
  const std::string table = profile_table(rows);
  EXPECT_NE(table.find("smooth_l1"), std::string::npos);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), static_cast<std::ptrdiff_t>(rows.size()) + 1);
  EXPECT_TRUE(throws_error([&] { Profiler second(device()); }, {"Profiler", "one already"}));

  auto captured = capture(step);  // recording is no work of this thread's stream, so nothing is marked
  captured(x);
  const std::int64_t before = find("optimizer", "step").calls;
  captured(x);
  captured(x);
  if (!device().is_cuda()) return;
  for (const ProfileRow& row : profiler.rows()) {
    if (row.phase == "optimizer") {
      EXPECT_EQ(row.calls, before + 1);
    }
  }
}

TEST_P(ProfileTest, RangesCanBeTurnedOnAndOff) {
  const Tensor x = random_leaf({3}, device());
  enable_ranges();
  {
    const Range range("data");
    x.clone().backward(x.detach());
  }
  enable_ranges(false);
  x.clone().backward(x.detach());
  EXPECT_TRUE(close(x.grad(), [&] {
    std::vector<double> twice = x.to_vector();
    for (double& value : twice) value *= 2;
    return twice;
  }()));
}

}  // namespace
}  // namespace bevel
