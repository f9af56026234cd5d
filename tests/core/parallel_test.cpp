#include <bevel/core/error.h>
#include <bevel/core/parallel.h>

#include <testing.h>

#include <atomic>
#include <thread>
#include <vector>

namespace bevel {
namespace {

using testing::throws_error;

class ParallelTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_num_threads(GetParam()); }
  void TearDown() override { set_num_threads(before_); }

 private:
  int before_ = num_threads();
};
INSTANTIATE_TEST_SUITE_P(Threads, ParallelTest, ::testing::Values(1, 2, 5));

TEST_P(ParallelTest, RunsEveryTileOnce) {
  std::vector<std::atomic<int>> runs(1000);
  parallel_for(1000, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
  parallel_for(0, [&](std::int64_t) { FAIL() << "no tile expected"; });
}

TEST_P(ParallelTest, RangesCoverAllWithFixedBounds) {
  std::vector<std::atomic<std::int64_t>> end_of(10);
  parallel_ranges(95, 10,
                  [&](std::int64_t begin, std::int64_t end) { end_of[static_cast<std::size_t>(begin / 10)] = end; });
  for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(end_of[static_cast<std::size_t>(i)], i == 9 ? 95 : 10 * i + 10);
}

TEST_P(ParallelTest, ThrowsTheErrorOfATileAndGoesOn) {
  EXPECT_TRUE(
      throws_error([] { parallel_for(100, [](std::int64_t i) { require(i != 37, "tile ", i); }); }, {"tile 37"}));
  std::atomic<int> runs{0};
  parallel_for(10, [&](std::int64_t) { ++runs; });
  EXPECT_EQ(runs, 10);
}

TEST_P(ParallelTest, NestedWorkStaysOnItsThread) {
  std::atomic<int> runs{0};
  parallel_for(8, [&](std::int64_t) {
    const auto thread = std::this_thread::get_id();
    parallel_for(8, [&](std::int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      ++runs;
    });
  });
  EXPECT_EQ(runs, 64);
}

TEST_P(ParallelTest, SeveralThreadsMayCallAtOnce) {
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back([&] { parallel_for(100, [&](std::int64_t) { ++runs; }); });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs, 400);
}

TEST(Parallel, RefusesNoThreads) {
  EXPECT_TRUE(throws_error([] { set_num_threads(0); }, {"at least 1", "got 0"}));
}

}  // namespace
}  // namespace bevel
