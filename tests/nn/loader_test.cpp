#include <bevel/nn/data/loader.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "testing.h"

namespace bevel {
namespace {

using bevel::testing::bit_equal;
using bevel::testing::DeviceTest;
using bevel::testing::throws_error;

// Sample i of epoch e is ([i, e], i * 10).
struct Filled {
  std::int64_t count = 10;
  std::int64_t bad = -1;
  mutable std::atomic<int> calls{0};

  std::int64_t size() const { return count; }
  std::array<TensorSpec, 2> specs() const { return {TensorSpec{{2}}, TensorSpec{{}, i64}}; }
  void fill(std::int64_t index, std::int64_t epoch, std::span<Tensor> slots) const {
    ++calls;
    require(index != bad, "sample ", index, " cannot be read");
    if (index % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));  // out of step on purpose
    slots[0].data<float>()[0] = static_cast<float>(index);
    slots[0].data<float>()[1] = static_cast<float>(epoch);
    slots[1].data<std::int64_t>()[0] = index * 10;
  }
};

struct Got {
  std::int64_t size() const { return 5; }
  std::pair<Tensor, Tensor> get(std::int64_t index) const {
    const auto value = static_cast<double>(index);
    return {Tensor::from({3}, {value, value, value}), Tensor::scalar(-value, {.dtype = f64})};
  }
};

struct GotByEpoch {
  bool ragged = false;
  std::int64_t size() const { return 4; }
  std::array<Tensor, 1> get(std::int64_t index, std::int64_t epoch) const {
    return {Tensor::zeros({ragged ? index + 1 : epoch + 1})};
  }
};

// All batches of some epochs, as values of the first part.
std::vector<std::vector<double>> collect(DataLoader<Filled>& loader, int epochs) {
  std::vector<std::vector<double>> result;
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (auto& [samples, labels] : loader) {
      result.push_back(samples.to_vector());
      for (const double label : labels.to_vector()) result.back().push_back(label);
    }
  return result;
}

TEST(DataLoaderTest, HandsOutEverySampleInOrder) {
  const Filled dataset;
  DataLoader loader{dataset, {.batch = 4}};
  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(loader.samples(), 10);
  std::vector<double> seen;
  std::vector<Shape> shapes;
  for (auto& [samples, labels] : loader) {
    shapes.push_back(samples.shape());
    EXPECT_EQ(labels.dtype(), i64);
    for (const double label : labels.to_vector()) seen.push_back(label);
  }
  std::vector<double> expected(10);
  for (std::size_t i = 0; i < 10; ++i) expected[i] = 10.0 * static_cast<double>(i);
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(shapes, (std::vector<Shape>{{4, 2}, {4, 2}, {2, 2}}));
}

TEST(DataLoaderTest, DropLast) {
  const Filled dataset;
  DataLoader loader{dataset, {.batch = 4, .drop_last = true}};
  EXPECT_EQ(loader.size(), 2);
  EXPECT_EQ(collect(loader, 1).size(), 2u);
}

TEST(DataLoaderTest, ShufflingIsAPermutationThatChangesByEpoch) {
  for (const std::int64_t epoch : {0, 1, 7}) {
    std::vector<std::int64_t> order = detail::sample_order(1000, true, 3, epoch);
    EXPECT_NE(order, detail::sample_order(1000, true, 3, epoch + 1));
    EXPECT_NE(order, detail::sample_order(1000, true, 4, epoch));
    EXPECT_EQ(order, detail::sample_order(1000, true, 3, epoch));
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, detail::sample_order(1000, false, 3, epoch));
  }
}

// Every place gets every sample about equally often.
TEST(DataLoaderTest, ShufflingIsUniform) {
  std::array<std::array<int, 5>, 5> counts{};
  for (std::int64_t epoch = 0; epoch < 10000; ++epoch) {
    const std::vector<std::int64_t> order = detail::sample_order(5, true, 1, epoch);
    for (std::size_t i = 0; i < 5; ++i) ++counts[i][static_cast<std::size_t>(order[i])];
  }
  for (const auto& row : counts)
    for (const int count : row) EXPECT_NEAR(count, 2000, 200);
}

TEST(DataLoaderTest, WorkersDoNotChangeTheBatches) {
  const Filled dataset{.count = 53};
  DataLoader reference{dataset, {.batch = 4, .shuffle = true, .seed = 9, .workers = 0}};
  const auto expected = collect(reference, 3);
  EXPECT_EQ(expected.size(), 42u);
  EXPECT_EQ(reference.epoch(), 2);
  for (const int workers : {1, 3}) {
    for (const std::int64_t prefetch : {0, 1, 100}) {
      DataLoader loader{dataset, {.batch = 4, .shuffle = true, .seed = 9, .workers = workers, .prefetch = prefetch}};
      EXPECT_EQ(collect(loader, 3), expected);
    }
  }
  DataLoader later{dataset, {.batch = 4, .shuffle = true, .seed = 9, .workers = 2}};
  later.set_epoch(2);
  EXPECT_EQ(collect(later, 1), std::vector(expected.begin() + 28, expected.end()));
}

TEST(DataLoaderTest, ReturnedSamplesAreStacked) {
  const Got dataset;
  DataLoader loader{dataset, {.batch = 5}};
  for (auto& [a, b] : loader) {
    EXPECT_EQ(a.shape(), (Shape{5, 3}));
    EXPECT_EQ(b.to_vector(), (std::vector<double>{0, -1, -2, -3, -4}));
    EXPECT_EQ(b.dtype(), f64);
  }
  const GotByEpoch by_epoch;
  DataLoader second{by_epoch, {.batch = 4}};
  for (std::int64_t epoch = 0; epoch < 2; ++epoch)
    for (auto& [a] : second) EXPECT_EQ(a.shape(), (Shape{4, epoch + 1}));
}

TEST(DataLoaderTest, SamplesOfDifferentShapesAreAnError) {
  const GotByEpoch dataset{.ragged = true};
  DataLoader loader{dataset, {.batch = 2}};
  EXPECT_TRUE(throws_error([&] { loader.begin(); }, {"part 0 of sample 1 is f32 [2]", "f32 [1]"}));
}

// The batches before the bad one arrive, its exception comes in its turn, and the loader can be used again.
TEST(DataLoaderTest, ExceptionsReachTheConsumer) {
  for (const int workers : {0, 1, 3}) {
    Filled dataset{.count = 40, .bad = 22};
    DataLoader loader{dataset, {.batch = 4, .workers = workers}};
    int batches = 0;
    EXPECT_TRUE(throws_error(
        [&] {
          for ([[maybe_unused]] auto& batch : loader) ++batches;
        },
        {"sample 22 cannot be read"}));
    EXPECT_EQ(batches, 5) << workers;
    dataset.bad = -1;
    EXPECT_EQ(collect(loader, 1).size(), 10u);
  }
}

TEST(DataLoaderTest, LeavingInTheMiddle) {
  const Filled dataset{.count = 1000};
  {
    DataLoader loader{dataset, {.batch = 2, .workers = 3}};
    int batches = 0;
    for ([[maybe_unused]] auto& batch : loader)
      if (++batches == 3) break;
    for (auto& [samples, labels] : loader) {  // another epoch from its start
      EXPECT_EQ(samples.to_vector()[0], 0);
      EXPECT_EQ(samples.to_vector()[1], 1);
      break;
    }
  }
  EXPECT_LE(dataset.calls, 100);  // no more than what was read ahead
}

TEST(DataLoaderTest, ReadsAheadNoFurtherThanAsked) {
  const Filled dataset{.count = 100};
  DataLoader loader{dataset, {.batch = 1, .workers = 3, .prefetch = 5}};
  loader.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(dataset.calls, 6);
}

TEST(DataLoaderTest, EmptyDataset) {
  const Filled dataset{.count = 0};
  DataLoader loader{dataset, {.batch = 4}};
  EXPECT_EQ(loader.size(), 0);
  EXPECT_TRUE(collect(loader, 2).empty());
}

TEST(DataLoaderTest, WrongOptions) {
  const Filled dataset;
  EXPECT_TRUE(throws_error([&] { DataLoader{dataset, {.batch = 0}}; }, {"batch must be at least 1", "0"}));
  EXPECT_TRUE(throws_error([&] { DataLoader{dataset, {.workers = -1}}; }, {"workers"}));
  EXPECT_TRUE(throws_error([&] { DataLoader{dataset, {.prefetch = -1}}; }, {"prefetch"}));
  DataLoader loader{dataset, {}};
  EXPECT_TRUE(throws_error([&] { loader.set_epoch(-1); }, {"epoch"}));
}

using DataLoaderDeviceTest = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, DataLoaderDeviceTest, ::testing::ValuesIn(testing::build_devices()),
                         testing::device_name);

TEST_P(DataLoaderDeviceTest, BatchesAreOnTheDevice) {
  const Filled dataset{.count = 64};
  for (const int workers : {0, 1, 3}) {
    DataLoader loader{dataset, {.batch = 8, .workers = workers, .device = device()}};
    double next = 0;
    std::vector<Tensor> kept;
    for (int epoch = 0; epoch < 3; ++epoch)
      for (auto& [samples, labels] : loader) {
        EXPECT_EQ(samples.device(), device());
        kept.push_back(labels);
      }
    for (const Tensor& labels : kept)
      for (const double label : labels.to_vector()) {
        EXPECT_EQ(label, 10 * next);
        next = next == 63 ? 0 : next + 1;
      }
  }
}

}  // namespace
}  // namespace bevel
