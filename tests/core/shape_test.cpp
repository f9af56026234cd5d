#include <bevel/core/shape.h>

#include <testing.h>

namespace bevel {
namespace {

using testing::throws_error;

TEST(Shape, CountsAndIndexesFromBothEnds) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.numel(), 24);
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape.axis(-3, "f"), 0);
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{2, 0}).numel(), 0);
  EXPECT_EQ(shape.without(1), (Shape{2, 4}));
  EXPECT_EQ(shape.inserted(1, 7), (Shape{2, 7, 3, 4}));
  EXPECT_EQ(shape.inserted(3, 7), (Shape{2, 3, 4, 7}));
  EXPECT_EQ(message(shape, Shape{}), "[2, 3, 4][]");
}

TEST(Shape, RefusesWhatCannotBe) {
  EXPECT_TRUE(throws_error([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }, {"at most 8", "got 9"}));
  EXPECT_TRUE(throws_error([] { Shape{2, -1}; }, {"negative", "-1", "axis 1"}));
  EXPECT_TRUE(throws_error([] { Shape{std::int64_t{1} << 40, std::int64_t{1} << 40}; }, {"2^62"}));
  EXPECT_TRUE(throws_error([] { Shape{2}.axis(1, "mean"); }, {"mean", "axis 1", "[2]"}));
}

TEST(Shape, BroadcastsFromTheEnd) {
  EXPECT_EQ(broadcast({2, 3}, {3}, "add"), (Shape{2, 3}));
  EXPECT_EQ(broadcast({2, 1}, {1, 3}, "add"), (Shape{2, 3}));
  EXPECT_EQ(broadcast({}, {4}, "add"), (Shape{4}));
  EXPECT_EQ(broadcast({1}, {0}, "add"), (Shape{0}));
  EXPECT_TRUE(throws_error([] { broadcast({2, 3}, {2}, "add"); }, {"add", "[2, 3]", "[2]", "3 and 2"}));
}

}  // namespace
}  // namespace bevel
