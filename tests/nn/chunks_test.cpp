#include "testing.h"

#include <bevel/nn/detail/chunks.h>

#include <cstddef>
#include <cstring>

namespace bevel::detail {
namespace {

// With bytes between its members, which no member says anything about.
struct Array {
  bool flag = false;
  std::int64_t size = 0;

  bool operator==(const Array&) const = default;
};

std::vector<Array> arrays(std::int64_t count, unsigned char between) {
  std::vector<Array> result(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    Array& array = result[static_cast<std::size_t>(i)];
    std::memset(reinterpret_cast<unsigned char*>(&array) + sizeof(bool), between, offsetof(Array, size) - sizeof(bool));
    array.size = chunk_size * (i % 3) + i % 2;
  }
  return result;
}

TEST(ChunksTest, FewArraysAreArguments) {
  TableMemory memory;
  const auto few = arrays(arrays_in_arguments, 0);
  const auto table = make_table(std::span<const Array>(few), memory, cpu);
  EXPECT_EQ(table.more, nullptr);
  EXPECT_FALSE(memory.device.defined());
}

TEST(ChunksTest, EmptyArraysAreLeftOutAndChunksAddUp) {
  TableMemory memory;
  for (const std::int64_t count : {7, 100}) {
    const auto all = arrays(count, 0);
    const auto table = make_table(std::span<const Array>(all), memory, cpu);
    const Array* const listed = table.more ? table.more : table.arrays;
    const std::int64_t* const first = table.more ? table.more_first : table.first;
    int used = 0;
    std::int64_t chunks = 0;
    for (const Array& array : all) {
      if (array.size == 0) continue;
      EXPECT_EQ(listed[used], array);
      EXPECT_EQ(first[used++], chunks);
      chunks += (array.size + chunk_size - 1) / chunk_size;
    }
    EXPECT_EQ(table.count, used);
    EXPECT_EQ(table.chunks, chunks);
  }
}

TEST(ChunksTest, ATableIsUploadedOnlyWhenAnArrayHasChanged) {
  TableMemory memory;
  const auto place = [&](const std::vector<Array>& all) {
    return make_table(std::span<const Array>(all), memory, cpu).more;
  };
  auto all = arrays(100, 0x00);
  const Tensor first = (place(all), memory.device);
  EXPECT_EQ(place(arrays(100, 0xff)), place(all)) << "uploaded again for bytes between members";
  EXPECT_TRUE(same(memory.device, first));
  all[1].flag = true;
  place(all);
  EXPECT_FALSE(same(memory.device, first));
}

}  // namespace
}  // namespace bevel::detail
