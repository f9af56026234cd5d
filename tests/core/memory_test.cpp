#include <bevel/core/detail/pool.h>
#include <bevel/core/memory.h>
#include <bevel/core/tensor.h>

#include <testing.h>

#include <algorithm>
#include <cstring>

namespace bevel {
namespace {

using namespace testing;

class MemoryTest : public DeviceTest {
 protected:
  // Under AddressSanitizer or BEVEL_NO_CACHE nothing is kept, and tests of reuse have no object.
  static bool caches() {
    release_cached_memory(device());
    Buffer::allocate(1000, device());
    return memory_stats(device()).cached > 0;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, MemoryTest, ::testing::ValuesIn(build_devices()), device_name);

TEST_P(MemoryTest, CountsWhatIsLive) {
  const std::size_t before = memory_stats(device()).live;
  reset_peak_memory(device());
  {
    const auto buffer = Buffer::allocate(1 << 20, device());
    EXPECT_GE(memory_stats(device()).live, before + (1 << 20));
  }
  EXPECT_EQ(memory_stats(device()).live, before);
  EXPECT_GE(memory_stats(device()).peak, before + (1 << 20));
}

TEST_P(MemoryTest, HandsFreedBlocksOutAgain) {
  if (!caches()) GTEST_SKIP() << "the allocator does not cache in this build";
  const void* first = Buffer::allocate(100'000, device())->data();
  const std::uint64_t calls = memory_stats(device()).system_calls;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Buffer::allocate(100'000 - i, device())->data(), first);
  EXPECT_EQ(memory_stats(device()).system_calls, calls);
}

TEST_P(MemoryTest, WastesAtMostAQuarter) {
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 26); bytes = bytes * 5 / 4 + 1) {
    const std::size_t before = memory_stats(device()).live;
    const auto buffer = Buffer::allocate(bytes, device());
    const std::size_t held = memory_stats(device()).live - before;
    EXPECT_GE(held, bytes);
    const double most = 1.25 * 1.07 * static_cast<double>(std::max<std::size_t>(bytes, 16 * 512));
    EXPECT_LE(static_cast<double>(held), most);
  }
}

TEST_P(MemoryTest, OutOfMemorySaysWhatIsHeldAndLeavesTheProcessUsable) {
  const auto kept = Buffer::allocate(1 << 16, device());
  EXPECT_TRUE(throws_error([] { Buffer::allocate(std::size_t{1} << 60, device()); },
                           {"out of memory", "1152921504606846976 bytes", "hold", "cache"}));
  EXPECT_THROW(Buffer::allocate(std::size_t{1} << 60, device()), OutOfMemory);
  EXPECT_NE(Buffer::allocate(1 << 16, device())->data(), nullptr);
}

TEST_P(MemoryTest, KeepsALimit) {
  set_memory_limit(device(), memory_stats(device()).live + (1 << 20));
  EXPECT_TRUE(throws_error([] { Buffer::allocate(2 << 20, device()); }, {"out of memory", "limit"}));
  EXPECT_NO_THROW(Buffer::allocate(1 << 19, device()));
  set_memory_limit(device(), 0);
  EXPECT_NO_THROW(Buffer::allocate(2 << 20, device()));
}

TEST_P(MemoryTest, ReleasesItsCache) {
  Buffer::allocate(1 << 20, device());
  release_cached_memory(device());
  EXPECT_EQ(memory_stats(device()).cached, 0u);
}

TEST_P(MemoryTest, NoBytesNeedNoMemory) {
  EXPECT_EQ(Buffer::allocate(0, device())->data(), nullptr);
}

TEST(Memory, PinnedMemoryOfTheHostIsHandedOutAgain) {
  EXPECT_TRUE(throws_error([] { detail::MemoryPool::pinned(cpu); }, {"pinned memory", "cpu"}));
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const auto pool = detail::MemoryPool::pinned(cuda(0));
  auto first = pool->allocate(100'000);
  EXPECT_EQ(first->device(), cpu);
  void* const data = first->data();
  auto second = pool->allocate(100'000);
  EXPECT_NE(second->data(), data);
  first.reset();
  first = pool->allocate(99'000);
  EXPECT_EQ(first->data(), data);
  std::memset(data, 42, 99'000);
  const Tensor there = Tensor::empty({99'000}, {.dtype = u8, .device = cuda(0)});
  copy_bytes(there.raw(), cuda(0), data, cpu, 99'000);
  std::memset(data, 7, 99'000);  // the copy has returned, so the bytes are there
  for (const double byte : there.to_vector()) ASSERT_EQ(byte, 42);
}

TEST(Memory, BlocksOfTheCpuAreAlignedToCacheLines) {
  for (const std::size_t bytes : {1, 65, 1000, 100'000})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Buffer::allocate(bytes, cpu)->data()) % 64, 0u);
}

}  // namespace
}  // namespace bevel
