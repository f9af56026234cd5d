#include <bevel/core/stream_clock.h>

#include <bevel/core/tensor.h>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "testing.h"

namespace bevel {
namespace {

using Milliseconds = std::chrono::milliseconds;

class StreamClockTest : public testing::DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, StreamClockTest, ::testing::ValuesIn(testing::build_devices()), testing::device_name);

// The thread sleeps while the stream has nothing to do, so that the points are reached as they are marked.
TEST_P(StreamClockTest, AddsUpStretches) {
  StreamClock clock(device());
  clock.stop();  // of nothing
  EXPECT_EQ(clock.seconds(), 0);
  for (int i = 0; i < 3; ++i) {
    clock.start();
    std::this_thread::sleep_for(Milliseconds(20));
    clock.stop();
    current_stream(device()).synchronize();
    std::this_thread::sleep_for(Milliseconds(50));  // outside
  }
  const double seconds = clock.seconds();
  EXPECT_GE(seconds, 0.055);
  EXPECT_LT(seconds, 0.5);  // a busy machine sleeps longer
  EXPECT_EQ(clock.seconds(), seconds);
}

TEST_P(StreamClockTest, AnOpenStretchGoesOn) {
  StreamClock clock(device());
  clock.start();
  clock.stop();
  clock.start();
  const double before = clock.seconds();
  std::this_thread::sleep_for(Milliseconds(30));
  clock.stop();
  EXPECT_GE(clock.seconds() - before, 0.025);
}

TEST_P(StreamClockTest, MoreStretchesThanItKeeps) {
  StreamClock clock(device());
  for (int i = 0; i < 1000; ++i) {
    clock.start();
    clock.stop();
  }
  EXPECT_GE(clock.seconds(), 0);
  EXPECT_LT(clock.seconds(), 5);
}

}  // namespace
}  // namespace bevel
